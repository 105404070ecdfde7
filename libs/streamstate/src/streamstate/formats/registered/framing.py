"""Keys and values that begin with the id of their schema: a zero byte, the id in four bytes, big-endian, the content.

A schema named by a header may have a GUID instead: a byte 1, and the GUID in 16 bytes.
"""

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any
from uuid import UUID

from streamstate.errors import BadRecord, RegistryUnavailable, UnknownSchema
from streamstate.formats.registered.registry import Registry, Schema, SchemaId

START, GUID_START = 5, 17
UNKNOWN_S = 10.0
"""Seconds for which an id stays unknown: a topic full of such records must not cause a request for each record."""

KINDS: Mapping[str, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "jsonschema": "JSON"}
"""The registry's names of the formats."""


def module(value: str) -> ModuleType:
    """The module with `reader` and `writer` of a format. Imported on demand: its packages take memory."""
    name = "json_schema" if value == "jsonschema" else value
    return import_module(f"streamstate.formats.registered.{name}")


def schema_id(raw: bytes, noun: str = "value", *, guids: bool = False) -> SchemaId:
    """The schema id at the beginning of a value or key. Raises `BadRecord` without an id.

    guids: whether the id may be a GUID.
    """
    if guids and raw[:1] == b"\1" and len(raw) >= GUID_START:
        return str(UUID(bytes=raw[1:GUID_START]))
    if len(raw) < START or raw[0] != 0:
        msg = f"the {noun} must begin with a zero byte and the id of its schema; found {raw[:START].hex() or 'nothing'}"
        raise BadRecord(msg)
    return int.from_bytes(raw[1:START], "big")


def start(raw: bytes, *, guids: bool = False) -> int:
    """The position of the content."""
    return GUID_START if guids and raw[:1] == b"\1" else START


def framed(number: int, content: bytes) -> bytes:
    """A value framed with the id of its schema."""
    return b"\0" + number.to_bytes(4, "big") + content


class Readers(dict[SchemaId, Callable[[bytes], Any]]):
    """How values of each schema are read, by its id."""

    def __init__(self, registry: Registry, value: str) -> None:
        super().__init__()
        self._registry = registry
        self._value = value
        self._unknown: dict[SchemaId, float] = {}

    def __missing__(self, number: SchemaId) -> Callable[[bytes], Any]:
        if self._unknown.get(number, 0) > time.monotonic():
            raise _unknown(number)
        try:
            schema = self._registry.schema(number)
        except UnknownSchema as error:
            self._unknown[number] = time.monotonic() + UNKNOWN_S
            raise _unknown(number) from error
        self[number] = self._reader(number, schema)
        return self[number]

    def _reader(self, number: SchemaId, schema: Schema) -> Callable[[bytes], Any]:
        kind = KINDS[self._value]
        if schema.kind != kind:
            return _refusing(f"schema {number} is of the kind {schema.kind}; this topic is configured as {kind}")
        try:
            reader: Callable[[bytes], Any] = module(self._value).reader(
                schema, START if isinstance(number, int) else GUID_START
            )
        except (MemoryError, ImportError, RegistryUnavailable):
            raise
        except Exception as error:  # noqa: BLE001, whatever is wrong with a schema, no record of it can be read
            return _refusing(f"schema {number} cannot be used: {error}")
        return reader


def _unknown(number: SchemaId) -> UnknownSchema:
    return UnknownSchema(f"the schema registry has no schema {number}")


def _refusing(reason: str) -> Callable[[bytes], Any]:
    def refuse(_raw: bytes) -> Any:
        raise BadRecord(reason)

    return refuse


@lru_cache
def readers(registry: Registry, value: str) -> Readers:
    """The readers of this process."""
    return Readers(registry, value)
