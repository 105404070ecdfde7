"""Schema ids in headers, as written by Confluent's serializers."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from services.archive.schemas import SchemaKeeper
from services.events import LISTENING_EVENTS, ListeningEvent
from services.metrics.model import APP as METRICS
from streamstate.errors import BadRecord
from streamstate.formats.applied import formatted
from streamstate.formats.format import Format
from streamstate.formats.registered import protobuf
from streamstate.formats.registered.declared import schema
from streamstate.formats.registered.registry import Schema, write
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import Row
from streamstate.kafka.dlq.records import unframed
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import KEY_ID, MISPLACED, VALUE_ID, DeadLetter, framed
from streamstate.spark.rows import COLUMNS, columns
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.unit.formats import known

PLAY = ListeningEvent(7, 1, 2, 3, 4)
HEADERS = {"schema.id.serializer": header_schema_id_serializer}


def serializer(value: str, kind: type, client: Any) -> Any:
    """Confluent's, of records of the type `kind`."""
    made = schema(value, kind, {})
    match value:
        case "avro":
            return AvroSerializer(client, made.text, conf=HEADERS)
        case "protobuf":
            message: Any = protobuf.message_class(made, (0,))
            write: Any = ProtobufSerializer(message, client, {**HEADERS, "use.deprecated.format": False})
            return lambda content, context: write(message(**content), context)
        case _:
            text = json.dumps({"title": "Record", **json.loads(made.text)})
            return JSONSerializer(text, client, conf=HEADERS, json_encode=msgspec.json.encode)


class Key(msgspec.Struct):
    id: int


@pytest.mark.parametrize("value", ["avro", "protobuf", "jsonschema"])
def test_keys_and_values_behind_ids_in_headers_are_read(value: Any, tmp_path: Path) -> None:
    client: Any = SchemaRegistryClient.new_client({"url": f"mock://{value}"})
    headers: Any = []
    topic = f"plays-{value}"
    fields = {MessageField.KEY: (Key, {"id": 7}), MessageField.VALUE: (ListeningEvent, msgspec.to_builtins(PLAY))}
    key, content = (
        serializer(value, kind, client)(given, SerializationContext(topic, field, headers))
        for field, (kind, given) in fields.items()
    )
    assert [name for name, _ in headers] == [KEY_ID, VALUE_ID]
    registry = known.registry(tmp_path)
    for (_, header), subject in zip(headers, (f"{topic}-key", f"{topic}-value"), strict=True):
        found = client.get_latest_version(subject)
        assert header[0] == 1
        raw, guid = Schema(found.schema.schema_type, found.schema.schema_str), str(found.guid)
        file = registry.file(guid)
        assert file is not None
        write(file, raw)
    given = Format(key=value, key_field="id", value=value, header_ids=True)
    app = formatted(METRICS, {LISTENING_EVENTS: given}, registry)
    driver = Driver(app, MemoryStore(), partitions=3)
    # The partition is the one of the bytes without any id.
    partition = partition_of(key, 3)
    driver.feed(partition, {LISTENING_EVENTS: [(0, 0, *framed(headers, key, content))]})
    assert not driver.dead
    assert driver.view("metrics", 7).event_count == 1  # type: ignore[union-attr]
    assert driver.store.read({partition: []})[partition].counters.get(MISPLACED, 0) == 0
    kept = Archive(str(tmp_path / "archive"))
    row: Row = (0, 0, 1, key, content, [*headers])
    SchemaKeeper(kept, registry, {LISTENING_EVENTS: given}).keep(LISTENING_EVENTS, [row])
    assert kept.schema(str(found.guid)) is not None


def test_a_number_in_a_header_and_at_the_beginning_are_both_read(tmp_path: Path) -> None:
    registry = known.registry(tmp_path)
    content = known.writer("avro", ListeningEvent, registry).write(msgspec.json.encode(PLAY))
    given = Format(value="avro", header_ids=True)
    driver = Driver(formatted(METRICS, {LISTENING_EVENTS: given}, registry), MemoryStore())
    key = LONG.encode(7)
    values = [framed([(VALUE_ID, content[:5])], key, content[5:])[1], framed([], key, content)[1], None]
    driver.feed(0, {LISTENING_EVENTS: [(n, 0, key, value) for n, value in enumerate(values)]})
    assert driver.view("metrics", 7).event_count == 2  # type: ignore[union-attr]
    assert [letter.offset for letter in driver.dead] == [2]


def test_a_dead_letter_keeps_the_bytes_of_its_record() -> None:
    headers: Any = [(VALUE_ID, b"\1" + bytes(16)), ("other", None)]
    key, value = framed(headers, b"k", b"v")
    letter = DeadLetter("plays", 0, 0, 0, key, value, "decode", BadRecord())
    assert (letter.key, letter.value) == (b"k", b"\1" + bytes(16) + b"v")
    assert (unframed(letter, headers).key, unframed(letter, headers).value) == (b"k", b"v")
    assert framed(headers, None, None) == (None, None)


def test_headers_are_read_where_they_are_declared_only(tmp_path: Path) -> None:
    assert [*columns(METRICS)] == [*COLUMNS, "key", "value"]
    given = {LISTENING_EVENTS: Format(value="avro", header_ids=True)}
    *_, key, value = columns(formatted(METRICS, given, known.registry(tmp_path)))
    for column, header, name in ((key, KEY_ID, "key"), (value, VALUE_ID, "value")):
        assert column.startswith(f"IF(topic IN ('{LISTENING_EVENTS}'), concat(")
        assert column.endswith(f"header.key = '{header}'), -1).value, X''), {name}), {name}) AS {name}")
