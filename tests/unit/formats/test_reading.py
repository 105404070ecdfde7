"""Topics of other formats, read by services without code for these formats."""

import json
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from devkit.events.formats import declared
from services.clicks.model import APP as CLICKS
from services.clicks.model import USER_CLICKS, USER_REGIONS, Region, Regions
from services.events import LISTENING_EVENTS, YEAR_9999_MS, ListeningEvent
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES_APP
from streamstate.errors import BadKey, Misconfigured, RegistryUnavailable
from streamstate.formats.applied import codec, formatted, registered
from streamstate.formats.format import Format
from streamstate.formats.plain import SERDES
from streamstate.formats.registered.registry import Registry, Schema
from streamstate.formats.writing import FormatEncoder
from streamstate.keys import CODECS, LONG, LONG_MAX
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.unit.formats.known import AWAY, NAMES, avro_schema, driver, know, letters, raw, registry, writer

REGISTERED = ("avro", "protobuf", "jsonschema")
ids = st.integers(0, LONG_MAX)
events = st.builds(ListeningEvent, ids, ids, ids, ids, st.integers(0, YEAR_9999_MS))
text = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
details = st.fixed_dictionaries({}, optional={"device": text, "genre": text, "durationMs": st.none() | ids})
laws = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])

PLAY = ListeningEvent(7, 1, 2, 3, 4)
LONGS = [{"name": name, "type": "long"} for name in ("userId", "artistId", "albumId", "trackId", "timestamp")]


Written = tuple[str, Registry, FormatEncoder, FormatEncoder]


@pytest.fixture(scope="module", params=["json", *REGISTERED])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A format, its registry, and the writers of two releases of a producer."""
    value, known = request.param, registry(tmp_path_factory.mktemp("known"))
    later = declared(LISTENING_EVENTS, value)
    return value, known, *(writer(value, k, known, n, NAMES) for n, k in enumerate((ListeningEvent, later), 1))


@laws
@given(event=events, details=details)
def test_a_service_gets_the_same_event_in_every_format(
    written: Written, event: ListeningEvent, details: dict[str, Any]
) -> None:
    value, known, first, later = written
    app = formatted(METRICS, {"*": Format(value=value, fields=NAMES)}, known)  # type: ignore[arg-type]
    _, _, key, content = raw(first, 0, event)
    assert app.source(LISTENING_EVENTS).decode(event.user_id, content) == event
    assert (key, b"user_id" in (content or b"")) == (LONG.encode(event.user_id), value in ("json", "jsonschema"))
    detailed = later.write(msgspec.json.encode(msgspec.to_builtins(event) | details))
    assert app.source(LISTENING_EVENTS).decode(event.user_id, detailed) == event


@pytest.mark.parametrize("value", REGISTERED)
@laws
@given(broken=st.binary(max_size=60) | st.binary(max_size=60).map(lambda raw: b"\0\0\0\0\1" + raw))
def test_broken_bytes_are_dead_letters(value: str, broken: bytes, tmp_path: Path) -> None:
    known = registry(tmp_path)
    good = writer(value, ListeningEvent, known)
    know(known, int.from_bytes(broken[1:5], "big"), Schema("AVRO", "{")) if broken[:5] != b"\0\0\0\0\1" else None
    folded = driver(METRICS, known, value=value)
    folded.feed(0, {LISTENING_EVENTS: [(0, 0, LONG.encode(7), broken), raw(good, 1, PLAY)]})
    assert len(folded.dead) + folded.view("metrics", 7).event_count == 2  # type: ignore[union-attr]


def test_a_schema_evolves_in_the_middle_of_a_topic(tmp_path: Path) -> None:
    known = registry(
        tmp_path,
        _2=avro_schema(*reversed(LONGS), {"name": "device", "type": ["null", "string"], "default": None}),
        _3=avro_schema({"name": "user_id", "type": "int"}, *LONGS[1:]),
        _4=avro_schema(*LONGS[:-1]),
    )
    first = writer("avro", ListeningEvent, known)
    later = b"\0\0\0\0\2" + b"".join(bytes([2 * number]) for number in (4, 3, 2, 1, 7)) + b"\2\2x"
    renamed = b"\0\0\0\0\3" + b"".join(bytes([2 * number]) for number in (7, 1, 2, 3, 4))
    unusable = b"\0\0\0\0\4" + renamed[5:9]
    folded = driver(METRICS, known, value="avro", fields={"userId": "user_id"})
    key = LONG.encode(7)
    folded.feed(
        0,
        {
            LISTENING_EVENTS: [
                raw(first, 0, PLAY),
                *((n, 0, key, each) for n, each in enumerate((later, renamed, unusable), 1)),
            ]
        },
    )
    assert folded.view("metrics", 7).event_count == 3  # type: ignore[union-attr]
    (letter,) = letters(folded)
    assert letter[:2] == (3, "decode")
    assert "schema 4 does not fit the topic's format: Object missing required field `timestamp`" in letter[2]


def test_a_record_that_waits_for_its_schema_holds_up_what_is_behind_it_and_nothing_is_lost(tmp_path: Path) -> None:
    known = registry(tmp_path)
    good, other = writer("avro", ListeningEvent, known), writer("avro", ListeningEvent, known, 2)
    file = known.file(2)
    assert file is not None
    file.unlink()
    folded = driver(METRICS, known, value="avro")
    records = {LISTENING_EVENTS: [raw(good, 0, PLAY), raw(other, 1, PLAY), raw(good, 2, PLAY)]}
    for _ in range(2):
        with pytest.raises(RegistryUnavailable, match=r"127.0.0.1:1 does not answer .* check it and REGISTRY"):
            folded.feed(0, records)
        assert folded.view("metrics", 7).event_count == 1  # type: ignore[union-attr]
    writer("avro", ListeningEvent, known, 2)
    folded.feed(0, records)
    assert folded.view("metrics", 7).event_count == 3  # type: ignore[union-attr]
    assert folded.dead == []


def test_merged_topics_wait_for_each_other(tmp_path: Path) -> None:
    known = registry(tmp_path, _1=Schema("AVRO", '"string"'))
    folded = driver(CLICKS, known, USER_REGIONS, value="avro")
    records = {
        USER_REGIONS: [(0, 1, b"amy", b"\0\0\0\0\1\x08asia"), (1, 20, b"amy", b"\0\0\0\0\2\x0ceurope")],
        USER_CLICKS: [(0, 10, b"amy", b"1"), (1, 30, b"amy", b"5")],
    }
    with pytest.raises(RegistryUnavailable):
        folded.feed(0, records)
    assert folded.view("regions") == Regions([Region("asia", 1)])
    know(known, 2, Schema("AVRO", '"string"'))
    folded.feed(0, records)
    assert folded.view("regions") == Regions([Region("asia", 1), Region("europe", 5)])


@pytest.mark.parametrize(
    ("value", "one"),
    [
        ("long", struct.pack(">q", 5)),
        ("int", struct.pack(">i", 5)),
        ("string", b"5"),
        ("json", b"5"),
        ("json", b'{"value":5}'),
    ],
)
def test_clicks_are_read_from_each_of_kafkas_serializers(value: str, one: bytes) -> None:
    folded = driver(CLICKS, Registry(""), USER_CLICKS, value=value)
    folded.feed(0, {USER_CLICKS: [(0, 0, b"amy", one), (1, 0, b"amy", b"\0\1\2")]})
    assert folded.view("regions") == Regions([Region("UNKNOWN", 5)])
    assert [letter.offset for letter in folded.dead] == [1]


def test_a_member_is_the_value_where_a_service_reads_text(tmp_path: Path) -> None:
    known = registry(tmp_path, _1=avro_schema({"name": "region", "type": "string"}))
    folded = driver(CLICKS, known, USER_REGIONS, value="avro", field="region")
    folded.feed(0, {USER_REGIONS: [(0, 0, b"amy", b"\0\0\0\0\1\x08asia")], USER_CLICKS: [(0, 1, b"amy", b"2")]})
    assert folded.view("regions") == Regions([Region("asia", 2)])


@pytest.mark.parametrize(
    ("serializer", "own", "key", "raw_key"),
    [
        ("string", "long", 7, b"7"),
        ("int", "long", 7, struct.pack(">i", 7)),
        ("long", "text", "-7", struct.pack(">q", -7)),
        ("int", "text", "7", struct.pack(">i", 7)),
        ("double", "text", "0.5", struct.pack(">d", 0.5)),
        ("bytes", "text", "00ff", b"\0\xff"),
        ("uuid", "text", str(UUID(int=5)), str(UUID(int=5)).encode()),
        ("string", "pair", "a:b", b"a:b"),
    ],
)
def test_keys_of_each_of_kafkas_serializers(serializer: str, own: str, key: Any, raw_key: bytes) -> None:
    found = codec("topic", CODECS[own], Format(key=serializer), Registry(AWAY))  # type: ignore[arg-type]
    assert (found.decode(raw_key), found.encode(key), found.parse(str(key))) == (key, raw_key, key)
    assert CODECS[found.name] is found


@pytest.mark.parametrize("text", ["1_0", " 7", "7 ", "+7", "\u0667", "\uff17", "7\n", "nan", "0x7", ""])
@pytest.mark.parametrize("name", ["long-text", "int-text", "double", "bytes"])
def test_another_spelling_names_no_key(name: str, text: str) -> None:
    with pytest.raises(BadKey, match=f"a key is of type {name}"):
        CODECS[name].parse(text)


@pytest.mark.parametrize("text", ["{%s}", "urn:uuid:%s", " %s", "%s\n"])
def test_a_uuid_is_written_in_its_36_characters(text: str) -> None:
    read, write = SERDES["uuid"]
    one = str(UUID(int=0xABC))
    assert (read(one.upper().encode()), write(one.upper())) == (one, one.encode())
    for other in (text % one, one.replace("-", ""), one.replace("0000", "0_00", 1)):
        with pytest.raises(ValueError, match=r".*"):
            read(other.encode())


def test_views_find_keys_where_their_serializer_has_placed_them() -> None:
    app = formatted(METRICS, {LISTENING_EVENTS: Format(key="string")}, Registry(""))
    folded = Driver(app, MemoryStore(), partitions=8)
    [view] = [view for view in app.views if view.name == "metrics"]
    question = view.ask("7")
    (partition,) = question.partitions({LISTENING_EVENTS: 8})
    folded.feed(partition, {LISTENING_EVENTS: [(0, 0, b"7", msgspec.json.encode(PLAY))]})
    assert folded.view("metrics", 7).event_count == 1  # type: ignore[union-attr]
    assert view.key is CODECS["digits"]
    assert not folded.dead


@pytest.mark.parametrize(
    ("app", "formats", "reason"),
    [
        (METRICS, {"plays": {}}, "metrics has no topic plays; it has listening-events: correct FORMATS"),
        (METRICS, {"*": {"value": "avro"}}, "the formats of listening-events need a schema registry: set REGISTRY"),
        (METRICS, {"*": {"key": "double"}}, "of type long, and cannot be written by the serializer double"),
        (CLICKS, {USER_CLICKS: {"key": "long"}}, "merged by their keys: give them the same format of keys"),
    ],
)
def test_formats_that_do_not_fit_are_refused(app: Any, formats: Any, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason):
        formatted(app, {topic: Format(**each) for topic, each in formats.items()}, Registry(""))


NESTED = {"userId": "user.id", "artistId": "what.artist.id", "timestamp": "at"}
NESTED_AVRO = """{"type": "record", "name": "Play", "fields": [
  {"name": "user", "type": {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}},
  {"name": "what", "type": ["null", {"type": "record", "name": "What", "fields": [
    {"name": "artist", "type": {"type": "record", "name": "Artist", "fields": [{"name": "id", "type": "long"}]}}]}]},
  {"name": "albumId", "type": "long"}, {"name": "trackId", "type": "long"}, {"name": "at", "type": "long"}]}"""
NESTED_PROTO = """syntax = "proto3";
message Play {
  message User { int64 id = 1; }
  message What { User artist = 1; }
  User user = 1; What what = 2; int64 albumId = 3; int64 trackId = 4; int64 at = 5;
}"""
NESTED_JSON = {"user": {"id": 7}, "what": {"artist": {"id": 1}}, "albumId": 2, "trackId": 3, "at": 4}


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("json", json.dumps(NESTED_JSON).encode()),
        ("avro", b"\0\0\0\0\1" + bytes([14, 2, 2, 4, 6, 8])),
        ("protobuf", b"\0\0\0\0\2\0" + b"\x0a\2\x08\7" + b"\x12\4\x0a\2\x08\1" + b"\x18\2\x20\3\x28\4"),
    ],
)
def test_a_name_with_dots_is_that_of_a_member_within(value: str, content: bytes, tmp_path: Path) -> None:
    known = registry(tmp_path, _1=Schema("AVRO", NESTED_AVRO), _2=Schema("PROTOBUF", NESTED_PROTO))
    source = formatted(METRICS, {"*": Format(value=value, fields=NESTED)}, known).source(LISTENING_EVENTS)  # type: ignore[arg-type]
    assert source.decode(7, content) == PLAY


def test_what_is_not_within_is_missing_and_no_error_of_its_own(tmp_path: Path) -> None:
    known = registry(tmp_path)
    folded = driver(METRICS, known, value="json", fields=NESTED)
    contents = [{**NESTED_JSON, "what": what} for what in (None, {}, 5, {"artist": [1]})]
    rows = [(n, 0, LONG.encode(7), json.dumps(content).encode()) for n, content in enumerate(contents)]
    folded.feed(0, {LISTENING_EVENTS: [*rows, (4, 0, LONG.encode(7), json.dumps(NESTED_JSON).encode())]})
    assert [letter[2] for letter in letters(folded)] == ["Object missing required field `artistId`"] * 4
    assert folded.view("metrics", 7).event_count == 1  # type: ignore[union-attr]


def test_names_within_members_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="records of listening-events-enriched are written"):
        formatted(NAMES_APP, {"listening-events-enriched": Format(value="json", fields=NESTED)}, registry(tmp_path))


def test_a_message_of_a_module_needs_no_registry() -> None:
    folded = driver(
        CLICKS, Registry(""), USER_CLICKS, value="protobuf", message="google.protobuf.wrappers_pb2:Int64Value"
    )
    folded.feed(0, {USER_CLICKS: [(0, 0, b"amy", b"\0\0\0\0\1\0\x08\5")]})
    assert folded.view("regions") == Regions([Region("UNKNOWN", 5)])


def test_a_class_that_is_not_there_is_refused_before_anything_is_read() -> None:
    given = Format(value="protobuf", message="google.protobuf.wrappers_pb2:Int63Value")
    with pytest.raises(Misconfigured, match=r"Int63Value cannot be imported .*: correct FORMATS, or install it"):
        registered(formatted(CLICKS, {USER_CLICKS: given}, Registry("")))


@pytest.mark.parametrize("given", [{"field": "clicks"}, {"value": "avro", "message": "events_pb2:Event"}])
def test_members_that_do_not_go_together_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError, match=r"field needs value|message is for values of the format protobuf"):
        Format(**given)


def test_another_kind_of_schema_than_the_topics_is_a_dead_letter(tmp_path: Path) -> None:
    known = registry(tmp_path, _1=Schema("JSON", "{}"))
    folded = driver(METRICS, known, value="avro")
    folded.feed(0, {LISTENING_EVENTS: [(0, 0, LONG.encode(7), b"\0\0\0\0\1{}"), (1, 0, LONG.encode(7), None)]})
    (other, null) = letters(folded)
    assert "schema 1 is of the kind JSON; this topic is configured as AVRO" in other[2]
    assert null == (1, "decode", "the value is null")
