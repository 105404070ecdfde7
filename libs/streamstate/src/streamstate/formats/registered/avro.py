"""Avro: values by their writer's schema."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from streamstate.formats.registered.registry import Schema

_TIMES = ("date", "time-", "timestamp-", "local-timestamp-")
"""How the logical types of times begin."""


def reader(schema: Schema, start: int) -> Callable[[bytes], Any]:
    """Reads a value from its byte `start` on. Times are numbers, in the unit of the schema."""
    parsed = _parsed(schema)

    def read(raw: bytes) -> Any:
        stream = BytesIO(raw)
        stream.seek(start)
        return schemaless_reader(stream, parsed, None)

    return read


def _parsed(schema: Schema) -> Any:
    """The schema with its references, and with times as numbers."""
    named: dict[str, Any] = {}
    for text in schema.references.values():
        parse_schema(_without_times(json.loads(text)), named)
    parsed = parse_schema(_without_times(json.loads(schema.text)), named)
    # fastavro keeps the definitions with a schema, but not with a name, or a union of names.
    if isinstance(parsed, list):
        return [named.get(each, each) if isinstance(each, str) else each for each in parsed]
    return named.get(parsed, parsed) if isinstance(parsed, str) else parsed


def writer(schema: Schema) -> Callable[[Any], bytes]:
    """Writes an object; raises for an unfit object."""
    parsed = _parsed(schema)

    def write(value: Any) -> bytes:
        stream = BytesIO()
        schemaless_writer(stream, parsed, value, strict_allow_default=True)
        return stream.getvalue()

    return write


def _without_times(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_times(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_time = str(schema.get("logicalType")).startswith(_TIMES)
    return {
        name: value if name == "default" else _without_times(value)
        for name, value in schema.items()
        if not (is_time and name == "logicalType")
    }
