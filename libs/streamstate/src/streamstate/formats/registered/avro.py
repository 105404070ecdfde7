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
    named: dict[str, Any] = {}
    for text in schema.references.values():
        parse_schema(_without_times(json.loads(text)), named)
    parsed = parse_schema(_without_times(json.loads(schema.text)), named)
    # fastavro keeps the definitions with a schema, but not with a name, or a union of names.
    if isinstance(parsed, list):
        parsed = [named.get(each, each) if isinstance(each, str) else each for each in parsed]
    elif isinstance(parsed, str):
        parsed = named.get(parsed, parsed)

    def read(raw: bytes) -> Any:
        stream = BytesIO(raw)
        stream.seek(start)
        return schemaless_reader(stream, parsed, None)

    return read


def writer(schema: Schema) -> Callable[[Any], bytes]:
    """Writes an object; raises for an unfit object."""
    parsed = parse_schema(json.loads(schema.text))

    def write(value: Any) -> bytes:
        stream = BytesIO()
        schemaless_writer(stream, parsed, value)
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
