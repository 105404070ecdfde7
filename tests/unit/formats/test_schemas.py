"""Schemas of every shape that the registry's own clients read."""

import base64
import json
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from fastavro import parse_schema, schemaless_writer
from google.protobuf import descriptor_pb2
from google.type import date_pb2  # type: ignore[import-untyped]

from devkit.servers.child_process import free_port
from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES_APP
from streamstate.errors import BadRecord, Misconfigured, RegistryUnavailable, UnknownSchema
from streamstate.formats.applied import formatted
from streamstate.formats.format import Format
from streamstate.formats.reading import FormatDecoder
from streamstate.formats.registered import avro, protobuf
from streamstate.formats.registered.registry import Registry, Schema
from tests.serving import Served
from tests.unit.formats.known import avro_schema, registry

PLAY = {"type": "record", "name": "Play", "namespace": "music", "fields": [{"name": "user", "type": "long"}]}
SKIP = {"type": "record", "name": "Skip", "namespace": "music", "fields": [{"name": "of", "type": "music.Play"}]}


def written(value: Any, *schemas: Any) -> bytes:
    """`value` by the last of `schemas`, which may refer to earlier schemas."""
    named: dict[str, Any] = {}
    for schema in schemas:
        parsed = parse_schema(schema, named)
    out = BytesIO()
    schemaless_writer(out, parsed, value)
    return out.getvalue()


def test_several_types_in_one_topic_are_a_union_of_references() -> None:
    # What a reference is called is the producer's affair.
    references = {"play.avsc": json.dumps(PLAY), "music.Skip": json.dumps(SKIP)}
    read = avro.reader(Schema("AVRO", json.dumps(["music.Play", "music.Skip"]), references), 0)
    assert read(b"\0" + written({"user": 7}, PLAY)) == {"user": 7}
    assert read(b"\2" + written({"of": {"user": 8}}, PLAY, SKIP)) == {"of": {"user": 8}}


@pytest.mark.parametrize("schema", ["long", ["null", "long"], {"type": "map", "values": "long"}], ids=str)
def test_a_schema_need_not_be_a_record(schema: Any) -> None:
    value = {"a": 5} if isinstance(schema, dict) else 5
    assert avro.reader(Schema("AVRO", json.dumps(schema)), 0)(written(value, schema)) == value


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("int", "date"),
        ("int", "time-millis"),
        ("long", "time-micros"),
        *(
            ("long", f"{kind}-{unit}")
            for kind in ("timestamp", "local-timestamp")
            for unit in ("millis", "micros", "nanos")
        ),
    ],
)
def test_a_time_is_the_number_that_it_is_written_as(kind: str, name: str) -> None:
    schema = {"type": kind, "logicalType": name}
    assert avro.reader(Schema("AVRO", json.dumps(schema)), 0)(written(1_700, kind)) == 1_700


IMPORTS = """
syntax = "proto3";
import "confluent/meta.proto";
import "google/type/date.proto";
import "google/protobuf/timestamp.proto";
message Play {
  option (confluent.message_meta).doc = "a play";
  int64 user = 1;
  google.type.Date day = 2;
  google.protobuf.Timestamp at = 3;
}
"""


def compiled() -> str:
    """The same in base64, in the form of clients that compile schemas: without imports."""
    imports = [meta_pb2.DESCRIPTOR.name, date_pb2.DESCRIPTOR.name, "google/protobuf/timestamp.proto"]
    file = descriptor_pb2.FileDescriptorProto(name="play.proto", syntax="proto3", dependency=imports)
    play = file.message_type.add(name="Play")
    play.field.add(name="user", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    play.field.add(name="day", number=2, type="TYPE_MESSAGE", type_name=".google.type.Date", label="LABEL_OPTIONAL")
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize("text", [IMPORTS, compiled()], ids=["text", "compiled"])
def test_what_the_clients_of_the_registry_know_may_be_imported_without_a_reference(text: str) -> None:
    read = protobuf.reader(Schema("PROTOBUF", text), 0)
    day = date_pb2.Date(year=2026, month=11, day=26).SerializeToString()
    play = b"\0\x08\x07\x12" + bytes([len(day)]) + day
    assert read(play) == {"user": 7, "day": {"year": 2026, "month": 11, "day": 26}}


def test_a_reference_is_written_nowhere_else(tmp_path: Path) -> None:
    outside = tmp_path / "outside.proto"
    with pytest.raises(BadRecord, match="no relative path"):
        protobuf.reader(Schema("PROTOBUF", IMPORTS, {str(outside): IMPORTS}), 0)
    assert not outside.exists()


def test_a_schema_that_does_not_compile_is_an_error_with_the_text_of_the_compiler() -> None:
    with pytest.raises(BadRecord, match=r'value.proto:3:.*"Album" is not defined'):
        protobuf.reader(Schema("PROTOBUF", 'syntax = "proto3";\nmessage Play {\n  Album album = 1;\n}'), 0)


def test_times_are_numbers_and_other_types_are_what_json_has(tmp_path: Path) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    known = registry(
        tmp_path,
        _1=avro_schema(
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
            {"name": "price", "type": decimal},
            {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "boolean"}}},
        ),
    )
    app = formatted(NAMES_APP, {"*": Format(value="avro")}, known)
    reader = app.source(LISTENING_EVENTS).decode
    assert isinstance(reader, FormatDecoder)
    content = reader.read(b"\0\0\0\0\1" + b"\2\x08" + b"\2\x7b" + b"\2\2a\2\1\0\0")
    assert json.loads(content) == {"at": 4, "price": 1.23, "tags": {"a": [True]}}


def test_a_schema_may_name_others(tmp_path: Path) -> None:
    inner = json.dumps({"type": "record", "name": "Inner", "fields": [{"name": "id", "type": "long"}]})
    outer = json.dumps({"type": "record", "name": "Outer", "fields": [{"name": "inner", "type": "Inner"}]})
    proto = 'syntax = "proto3"; import "inner.proto"; message Outer { Inner inner = 1; }'
    known = registry(
        tmp_path,
        _1=Schema("AVRO", outer, {"Inner": inner}),
        _2=Schema("PROTOBUF", proto, {"inner.proto": 'syntax = "proto3"; message Inner { int64 id = 1; }'}),
    )
    for value, content in (("avro", b"\0\0\0\0\1\x0e"), ("protobuf", b"\0\0\0\0\2\0\x0a\2\x08\7")):
        reader: Any = formatted(METRICS, {"*": Format(value=value)}, known).source(LISTENING_EVENTS).decode  # type: ignore[arg-type]
        assert json.loads(reader.read(content)) == {"inner": {"id": 7}}


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { string name = 1; }
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { int64 item_id = 1; repeated double amounts = 2; Order parent = 3; }
  int64 order_id = 1;
  State state = 2;
  optional string note = 3;
  repeated Line lines = 4;
  map<string, int32> counts = 5;
  oneof payment { string card = 6; bool cash = 7; }
  google.protobuf.Timestamp at = 8;
}
"""


def test_messages_become_json_objects_with_the_names_of_the_schema() -> None:
    schema = Schema("PROTOBUF", PROTO)
    kind = protobuf.message_class(schema, (1,))
    lines = [{"item_id": 2**60, "amounts": [0.5]}]
    order = kind(order_id=5, state=1, lines=lines, counts={"a": 1}, cash=False, at={"seconds": 3})
    content = b"\0\0\0\0\1\2\2" + order.SerializeToString()
    expected = {
        "order_id": 5,
        "state": "PAID",
        "lines": [{"item_id": 2**60, "amounts": [0.5]}],
        "counts": {"a": 1},
        "cash": False,
        "at": {"seconds": 3, "nanos": 0},
    }
    assert protobuf.reader(schema, 5)(content) == expected
    with pytest.raises(Exception, match="has no message"):
        protobuf.reader(schema, 5)(b"\0\0\0\0\1\2\x08")


# Answers of a schema registry, and their effects.

TEXT = '{"type": "record", "name": "Play", "fields": [{"name": "place", "type": "Place"}]}'
NAMED = '{"type": "record", "name": "Place", "fields": []}'
WRITTEN = Schema("AVRO", NAMED)
REFERENCE = {"name": "Place", "subject": "places", "version": 3}


class FakeRegistry:
    """Answers by method and path with its query; 404 with the code `missing` for all others."""

    def __init__(self) -> None:
        self.missing = 40403
        self.answers: dict[str, tuple[int, Any]] = {}
        self.served = Served(f"127.0.0.1:{free_port()}", self._answer)
        self.registry = Registry(f"http://{self.served.address}")
        self.asked: list[str] = []

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        asked = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}" + (f"?{query}" if query else "")
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self.asked.append(asked)
        status, body = self.answers.get(asked, (404, {"error_code": self.missing, "message": "not here"}))
        start_response(f"{status} -", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.served.stop()


def test_a_reference_that_was_deleted_softly_is_read(fake: FakeRegistry) -> None:
    fake.answers = {
        "GET /schemas/ids/7": (200, {"schema": TEXT, "references": [REFERENCE]}),
        "GET /subjects/places/versions/3?deleted=true": (
            200,
            {"subject": "places", "version": 3, "id": 5, "schema": NAMED},
        ),
    }
    assert fake.registry.schema(7) == Schema("AVRO", TEXT, {"Place": NAMED})


@pytest.mark.parametrize("code", [40401, 40402, 40403, 404, 40499])
def test_what_the_registry_does_not_have_is_unknown_whatever_its_code(fake: FakeRegistry, code: int) -> None:
    fake.missing = code
    with pytest.raises(UnknownSchema, match="not here"):
        fake.registry.schema(7)
    fake.answers = {"GET /schemas/ids/8": (200, {"schema": TEXT, "references": [REFERENCE]})}
    with pytest.raises(UnknownSchema, match="not here"):
        fake.registry.schema(8)


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_any_other_refusal_waits_and_says_what_was_answered(fake: FakeRegistry, status: int) -> None:
    fake.answers = {"GET /schemas/ids/7": (status, {"error_code": status * 100, "message": "ask the owner"})}
    with pytest.raises(RegistryUnavailable, match=f"answers {status}: ask the owner; .*REGISTRY"):
        fake.registry.schema(7)


LOOK_UP, REGISTER = (
    "POST /subjects/out-value?normalize=False&deleted=False",
    "POST /subjects/out-value/versions?normalize=False",
)


def test_a_schema_that_is_there_needs_no_right_to_register_it(fake: FakeRegistry) -> None:
    found = {"subject": "out-value", "version": 1, "id": 5, "schema": NAMED}
    fake.answers = {LOOK_UP: (200, found), REGISTER: (403, {"error_code": 40301, "message": "no"})}
    assert fake.registry.register("out-value", WRITTEN) == 5


@pytest.mark.parametrize("code", [40401, 40403])
def test_a_schema_that_is_new_is_registered(fake: FakeRegistry, code: int) -> None:
    fake.missing, fake.answers = code, {REGISTER: (200, {"id": 6})}
    assert fake.registry.register("out-value", WRITTEN) == 6


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_register_is_told_what_to_register(fake: FakeRegistry, status: int) -> None:
    fake.answers = {REGISTER: (status, {"error_code": status * 100, "message": "no"})}
    with pytest.raises(Misconfigured, match=r"may not register.*out-value.*AVRO") as raised:
        fake.registry.register("out-value", WRITTEN)
    assert NAMED in str(raised.value)
