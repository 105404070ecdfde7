"""Derived topics in other formats, whose schemas are made of the services' own types."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.clicks.model import APP as CLICKS
from services.events import LISTENING_EVENTS, ListeningEvent
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES_APP
from services.names.model import ENRICHED, EnrichedEvent
from services.notifications.model import NOTIFICATION_WINDOWS, NOTIFICATIONS, WindowUpdate
from streamstate.app import App, Derived, Record
from streamstate.errors import Misconfigured, RegistryUnavailable
from streamstate.formats.applied import formatted, registered
from streamstate.formats.format import Format
from streamstate.formats.reading import FormatDecoder
from streamstate.formats.registered.declared import schema
from streamstate.formats.registered.registry import Registry
from streamstate.formats.writing import FormatEncoder
from streamstate.keys import LONG, LONG_MAX, TEXT
from streamstate.processing.decode import Admission, decode_records
from tests.unit.formats.known import AWAY, know, registry

APP = App(
    "app",
    (),
    emits={
        ENRICHED: Derived(LONG, EnrichedEvent),
        NOTIFICATIONS.topic: Derived(TEXT, str),
        NOTIFICATION_WINDOWS.topic: Derived(TEXT, WindowUpdate),
        "totals": Derived(TEXT, int),
    },
)
NAMES = {"userId": "user_id"}
REGISTERED = ("avro", "protobuf", "jsonschema")
ids = st.integers(0, LONG_MAX)
names = st.none() | st.text(st.characters(exclude_categories=["Cs"]))
laws = settings(max_examples=40)


def derived(app: App, topic: str, value: str, registry: Registry, number: int = 1) -> Derived:
    """With a schema that is known by this id."""
    given = Format(value=value, fields=NAMES)  # type: ignore[arg-type]
    found = formatted(app, {topic: given}, registry).emits[topic]
    assert isinstance(found.encode, FormatEncoder)
    know(registry, number, schema(value, found.value, NAMES))
    return replace(found, encode=replace(found.encode, number=number))


def members(value: bytes | None) -> Any:
    """The content of a value without null members, because Protobuf has no null."""
    content = json.loads(value or b"null")
    return {name: each for name, each in content.items() if each is not None} if isinstance(content, dict) else content


@pytest.fixture(scope="module", params=REGISTERED)
def topics(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Derived]:
    """Topics in a format, each with a known schema: the first has the id 1."""
    known, names = registry(tmp_path_factory.mktemp("known")), (ENRICHED, NOTIFICATIONS.topic, "totals")
    return {topic: derived(APP, topic, request.param, known, number) for number, topic in enumerate(names, 1)}


@laws
@given(event=st.builds(EnrichedEvent, ids, ids, ids, names, ids, names, ids, names))
def test_what_is_written_is_what_is_read(topics: dict[str, Derived], event: EnrichedEvent) -> None:
    own, there = msgspec.json.encode(event), topics[ENRICHED]
    key, content = there.encode(LONG.encode(event.user_id), own)
    assert (key, (content or b"")[:5]) == (LONG.encode(event.user_id), b"\0\0\0\0\1")
    back = there.decode(key, content)
    assert (back[0], members(back[1])) == (key, members(own))


@laws
@given(text=names.filter(bool), number=ids)
def test_strings_and_numbers_have_schemas_too(topics: dict[str, Derived], text: str, number: int) -> None:
    for topic, own in ((NOTIFICATIONS.topic, text.encode()), ("totals", b"%d" % number)):
        there = topics[topic]
        assert there.decode(*there.encode(b"amy", own)) == (b"amy", own)
        assert there.encode(b"amy", None) == (b"amy", None)


@pytest.mark.parametrize(("value", "raw"), [("long", bytes(7) + b"\5"), ("int", bytes(3) + b"\5"), ("string", b"5")])
def test_totals_are_written_by_kafkas_serializers(value: str, raw: bytes) -> None:
    (totals,) = formatted(CLICKS, {"clicks-per-region": Format(value=value)}, Registry("")).totals  # type: ignore[arg-type]
    assert totals.derived.encode(b"asia", b"5") == (b"asia", raw)
    assert totals.derived.decode(b"asia", raw) == (b"asia", b"5")


def test_keys_of_derived_records_have_the_format_of_their_topic() -> None:
    there = formatted(APP, {ENRICHED: Format(key="string")}, Registry("")).emits[ENRICHED]
    assert there.encode(LONG.encode(7), b'{"userId":7}') == (b"7", b'{"userId":7}')
    assert there.decode(b"7", b"{}") == (LONG.encode(7), b"{}")


def test_a_schema_is_registered_before_anything_is_written() -> None:
    app = formatted(NAMES_APP, {ENRICHED: Format(value="avro")}, Registry(AWAY))
    with pytest.raises(RegistryUnavailable, match="does not answer"):
        registered(app)
    assert registered(NAMES_APP) == NAMES_APP


def test_a_type_without_a_schema_is_refused() -> None:
    class Nested(msgspec.Struct):
        plays: list[int]

    with pytest.raises(Misconfigured, match="ListType has no schema here; write this topic as json"):
        schema("avro", Nested, {})


def test_formats_travel_to_the_workers(tmp_path: Path) -> None:
    known = registry(tmp_path)
    writer = derived(APP, ENRICHED, "protobuf", known).encode
    assert isinstance(writer, FormatEncoder)
    content = writer.write(b'{"userId":7}')
    assert pickle.loads(pickle.dumps(writer)).write(b'{"userId":7}') == content
    reader = formatted(METRICS, {"*": Format(value="json", fields=NAMES)}, known).source(LISTENING_EVENTS).decode
    assert isinstance(reader, FormatDecoder)
    play = b'{"user_id":7,"artistId":1,"albumId":2,"trackId":3,"timestamp":4}'
    assert reader(7, play) == pickle.loads(pickle.dumps(reader))(7, play) == ListeningEvent(7, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("given", "key", "value", "own"),
    [
        ({"value": "long"}, b"amy", bytes(7) + b"\5", (b"amy", b"5")),
        ({"value": "string"}, b"amy", b"5", (b"amy", b"5")),
        ({"value": "json", "field": "clicks"}, b"amy", b'{"clicks": 5}', (b"amy", b"5")),
        ({"key": "long"}, bytes(7) + b"\7", b"5", (b"7", b"5")),
        ({"value": "long"}, b"amy", b"5", None),
        ({"value": "json", "field": "clicks"}, b"amy", b"{}", None),
        ({"value": "json", "field": "event.clicks"}, b"amy", b'{"event": {"clicks": 5}}', (b"amy", b"5")),
        ({"value": "json", "field": "event.clicks"}, b"amy", b'{"event": 5}', None),
        ({"key": "long"}, b"amy", b"5", None),
        ({"value": "long"}, b"amy", None, (b"amy", None)),
    ],
)
def test_a_record_is_read_as_declared(given: Any, key: bytes, value: bytes | None, own: Any) -> None:
    deployed = formatted(CLICKS, {"*": Format(**given)}, Registry(""))
    decoded = decode_records(deployed.source("user-clicks"), [(3, 5, key, value)], (None, 0), (0, 1), Admission(2**63))
    (entry,) = decoded.entries
    assert isinstance(entry, Record) == (own is not None and value is not None)
    assert not isinstance(entry, Record) or (entry.key, entry.value) == (own[0].decode(), int(own[1]))
