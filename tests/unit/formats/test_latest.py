"""Outputs by the latest schema of the registry, and values with a byte order mark."""

import json
from pathlib import Path

import msgspec
import pytest

from services.events import LISTENING_EVENTS, ListeningEvent
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES_APP
from services.names.model import ENRICHED
from streamstate.errors import Misconfigured
from streamstate.formats.applied import formatted, registered
from streamstate.formats.format import Format, ValueFormat
from streamstate.formats.reading import BOM
from streamstate.formats.registered.declared import schema
from streamstate.formats.registered.registry import Registry, Schema
from streamstate.keys import LONG
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.unit.formats.known import AWAY

FORMATS: tuple[ValueFormat, ...] = ("avro", "protobuf", "jsonschema")
KIND = NAMES_APP.emits[ENRICHED].value
NUMBER = 77


class WithLatest(Registry):
    """Has one schema, and refuses to register any."""

    def latest(self, subject: str) -> tuple[int, Schema]:
        assert subject == f"{ENRICHED}-value"
        return NUMBER, msgspec.json.decode(Path(self.folder).read_bytes(), type=Schema)

    def register(self, subject: str, schema: Schema) -> int:
        raise AssertionError(subject, schema)


def with_latest(folder: Path, latest: Schema) -> Registry:
    file = folder / "latest.json"
    file.write_bytes(msgspec.json.encode(latest))
    return WithLatest(AWAY, str(file))


def wider(value: str, given: Schema) -> Schema:
    """A later version, with a further member."""
    if value == "protobuf":
        return Schema(given.kind, given.text.replace("}", "  optional string ci = 99;\n}"))
    content = json.loads(given.text)
    if value == "avro":
        content["fields"].insert(0, {"name": "ci", "type": "string", "default": "yes"})
    return Schema(given.kind, json.dumps(content))


@pytest.mark.parametrize("value", FORMATS)
def test_a_record_is_written_by_the_latest_schema(value: ValueFormat, tmp_path: Path) -> None:
    registry = with_latest(tmp_path, wider(value, schema(value, KIND, {})))
    app = registered(formatted(NAMES_APP, {ENRICHED: Format(value=value, latest=True)}, registry))
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(KIND)}
    event = json.dumps({name: 1 if kind is int else "a" for name, kind in fields.items()}).encode()
    _, written = app.emits[ENRICHED].encode(LONG.encode(1), event)
    assert written is not None
    assert written[:5] == b"\0" + NUMBER.to_bytes(4, "big")
    assert (b"yes" in written) == (value == "avro")


@pytest.mark.parametrize(
    ("value", "latest"),
    [
        ("avro", Schema("AVRO", '{"type": "record", "name": "E", "fields": []}')),
        ("protobuf", Schema("PROTOBUF", 'syntax = "proto3"; message E { string other = 1; }')),
        ("jsonschema", Schema("AVRO", '"string"')),
        ("avro", wider("avro", Schema("AVRO", '{"type": "record", "name": "E", "fields": []}'))),
    ],
)
def test_a_latest_schema_that_does_not_fit_is_refused_with_a_schema(
    value: ValueFormat, latest: Schema, tmp_path: Path
) -> None:
    app = formatted(NAMES_APP, {ENRICHED: Format(value=value, latest=True)}, with_latest(tmp_path, latest))
    with pytest.raises(Misconfigured, match=rf"latest schema of {ENRICHED}-value \(77\) does not fit .* such as: "):
        registered(app)


def test_a_byte_order_mark_is_left_out_where_it_is_declared() -> None:
    event = msgspec.json.encode(ListeningEvent(7, 1, 2, 3, 4))
    for formats, dead in (({LISTENING_EVENTS: Format(bom=True)}, 0), ({}, 1)):
        driver = Driver(formatted(METRICS, formats, Registry("")), MemoryStore())
        driver.feed(0, {LISTENING_EVENTS: [(n, 0, LONG.encode(7), raw) for n, raw in enumerate((BOM + event, event))]})
        assert len(driver.dead) == dead
