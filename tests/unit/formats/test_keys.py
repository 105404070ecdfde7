"""Keys with schemas: the bytes of Confluent's serializers, read and found again."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from services.clicks.model import APP as CLICKS
from services.events import LISTENING_EVENTS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from streamstate.errors import BadRecord, Misconfigured, RegistryUnavailable
from streamstate.formats.applied import formatted
from streamstate.formats.format import Format
from streamstate.formats.reading import KeyReader
from streamstate.formats.registered.registry import Registry, Schema
from streamstate.keys import CODECS, LONG, LONG_MAX, TEXT, KeyCodec, partition_of
from streamstate.keys.framed import Framed
from streamstate.processing.decode import MISPLACED
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.unit.formats import known
from tests.unit.formats.serializers import SERIALIZERS

ids, texts = st.integers(0, LONG_MAX), st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=40)


@pytest.mark.parametrize("kind", SERIALIZERS)
@pytest.mark.parametrize("inner", [LONG, TEXT], ids=lambda inner: inner.name)
def test_a_key_has_the_bytes_of_its_serializer_and_is_read_from_them(
    kind: str, inner: KeyCodec[Any], tmp_path: Path
) -> None:
    client: Any = SchemaRegistryClient.new_client({"url": "mock://keys"})
    serialize = SERIALIZERS[kind](client, inner, SerializationContext(f"{kind}-{inner.name}", MessageField.KEY))
    number = int.from_bytes(serialize(1 if inner is LONG else "a")[1:5], "big")
    registered = client.get_schema(number)
    registry = known.registry(tmp_path)
    known.know(registry, number, Schema(registered.schema_type, registered.schema_str))
    codec = Framed(kind, number, "id", inner, KeyReader(kind, registry))

    @given(ids if inner is LONG else texts)
    def law(key: Any) -> None:
        raw = serialize(key)
        assert codec.encode(key) == raw
        assert codec.decode(raw) == key
        # Gateways know a key by the name of its codec alone.
        named = CODECS[codec.name]
        assert (named.encode(named.parse(str(key))), named.name) == (raw, codec.name)

    law()


def test_plays_by_a_key_of_debezium_are_found_by_its_member(tmp_path: Path) -> None:
    registry = known.registry(
        tmp_path,
        _7=known.avro_schema({"name": "id", "type": "long"}, name="Key"),
        _8=known.avro_schema({"name": "id", "type": "int"}, {"name": "shop", "type": "int"}, name="Key"),
    )
    app = formatted(METRICS, {LISTENING_EVENTS: Format(key="avro", key_schema=7, key_field="id")}, registry)
    (key,) = {source.key for source in app.sources if source.topic == LISTENING_EVENTS}
    assert key.name == "avro:7:id:long"
    value = json.dumps({"userId": 5, "artistId": 1, "albumId": 1, "trackId": 1, "timestamp": 9}).encode()
    partition = partition_of(key.encode(5), 4)
    raws = [key.encode(5), b"\0\0\0\0\x08\x0a\x02", b"5", None]
    driver = Driver(app, MemoryStore(), partitions=4)
    driver.feed(partition, {LISTENING_EVENTS: [(n, 0, raw, value) for n, raw in enumerate(raws)]})
    assert driver.view("metrics", 5).event_count == 2  # type: ignore[union-attr]
    assert [letter.offset for letter in driver.dead] == [2, 3]
    assert "the key must begin with a zero byte and the id of its schema" in str(driver.dead[0].error)
    unknown = (4, 0, b"\0\0\0\0\x09\x0a", value)
    with pytest.raises(RegistryUnavailable):
        driver.feed(partition, {LISTENING_EVENTS: [unknown]})
    # A key of another schema counts in its partition, and the counter tells.
    elsewhere = next(p for p in range(4) if p != partition)
    driver.feed(elsewhere, {LISTENING_EVENTS: [(0, 0, b"\0\0\0\0\x08\x0a\x02", value)]})
    assert driver.store.read({elsewhere: []})[elsewhere].counters[MISPLACED] == 1


def test_a_key_of_json_is_found_by_its_member() -> None:
    app = formatted(METRICS, {LISTENING_EVENTS: Format(key="json", key_field="id")}, Registry(""))
    key = app.source(LISTENING_EVENTS).key
    assert (key.encode(5), key.decode(b'{"id": 5}'), key.name) == (b'{"id":5}', 5, "json:0:id:long")
    for raw in (b'{"id": "5"}', b"5", b"", None):
        with pytest.raises(BadRecord, match="the key has no id of type long"):
            key.decode(raw)


@pytest.mark.parametrize("content", [{"id": "5"}, {"id": True}, {"id": -1}, {"id": 1 << 63}, {"key": 5}, 5, None])
def test_a_member_of_another_type_is_no_key(content: Any) -> None:
    codec = Framed("jsonschema", 1, "id", LONG, lambda _raw: content)
    with pytest.raises(BadRecord):
        codec.decode(b"")


@pytest.mark.parametrize(
    "given",
    [{"key": "avro"}, {"key": "long", "key_schema": 3}, {"key_field": "id"}, {"key": "protobuf", "key_schema": 3}],
)
def test_a_format_of_keys_is_whole(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="key_field"):
        Format(**given)


def test_keys_with_schemas_need_a_registry_and_a_stream() -> None:
    given = Format(key="avro", key_schema=7)
    with pytest.raises(Misconfigured, match="set REGISTRY"):
        formatted(METRICS, {LISTENING_EVENTS: given}, Registry(""))
    with pytest.raises(BadRecord, match="read by streams only"):
        CODECS["avro:7::long"].decode(b"")
    with pytest.raises(KeyError):
        CODECS["avrö:7::long"]


def test_the_examples_of_the_page_are_formats_of_their_services(tmp_path: Path) -> None:
    page = Path("docs/formats.md").read_text()
    examples = re.findall(r"STREAMSTATE_FORMATS='(.*)'", page)
    assert len(examples) > 2
    for text in examples:
        given = {topic: Format(**each) for topic, each in json.loads(text).items()}
        (app,) = [app for app in (METRICS, NAMES, CLICKS) if {*given} <= {*app.topics, *app.emits}][:1]
        assert formatted(app, given, known.registry(tmp_path)) != app
