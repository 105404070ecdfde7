"""An unreachable registry with known schemas."""

import json
from pathlib import Path
from typing import Any

import msgspec

from services.events import LISTENING_EVENTS, ListeningEvent
from streamstate.app import App
from streamstate.formats.applied import formatted
from streamstate.formats.format import Format
from streamstate.formats.registered.declared import Names, schema
from streamstate.formats.registered.registry import Registry, Schema, write
from streamstate.formats.writing import FormatEncoder
from streamstate.keys import LONG, KeyCodec
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver

AWAY = "http://127.0.0.1:1"
NO_NAMES: Names = {}
NAMES: Names = {"userId": "user_id", "timestamp": "played_at"}


def registry(folder: Path, **schemas: Schema) -> Registry:
    """`schemas` by their ids, each behind an underscore."""
    registry = Registry(AWAY, str(folder))
    for number, each in schemas.items():
        know(registry, int(number[1:]), each)
    return registry


def know(registry: Registry, number: int, known: Schema) -> None:
    file = registry.file(number)
    assert file is not None
    write(file, known)


def writer(value: str, kind: type, registry: Registry, number: int = 1, names: Names = NO_NAMES) -> FormatEncoder:
    """Writes values of `kind`, whose schema is known as `number` from now on."""
    if value in ("avro", "protobuf", "jsonschema"):
        know(registry, number, schema(value, kind, names))
    return FormatEncoder((LONG, LONG), kind, value, names, registry, number)


def raw(writes: FormatEncoder, offset: int, event: Any, key: KeyCodec[Any] = LONG) -> RawRecord:
    user = event.user_id if isinstance(event, ListeningEvent) else 7
    return offset, 0, key.encode(user), writes(LONG.encode(user), msgspec.json.encode(event))[1]


def driver(app: App, registry: Registry, topic: str = LISTENING_EVENTS, **given: Any) -> Driver:
    return Driver(formatted(app, {topic: Format(**given)}, registry), MemoryStore())


def letters(driver: Driver) -> list[tuple[int, str, str]]:
    return [(letter.offset, letter.stage, str(letter.error)) for letter in driver.dead]


def avro_schema(*members: Any, name: str = "Play") -> Schema:
    """Of a record with these members."""
    return Schema("AVRO", json.dumps({"type": "record", "name": name, "fields": [*members]}))
