"""Avro: values by their writer's schema."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer

from streamstate.formats.registered.registry import Schema

_TIMES = ("date", "time-", "timestamp-", "local-timestamp-")
"""How the logical types of times begin."""


_VALUE = "value"


def reader(schema: Schema, start: int) -> Callable[[bytes], Any]:
    """Reads a value from its byte `start` on. Times are numbers, in the unit of the schema."""
    parsed = _parsed(schema)

    def read(raw: bytes) -> Any:
        stream = BytesIO(raw)
        stream.seek(start)
        record: Any = schemaless_reader(stream, parsed, None)
        return record[_VALUE]

    return read


def _parsed(schema: Schema) -> Any:
    """A record whose only member has the schema with its references, and times as numbers.

    The record has the bytes of its member. fastavro keeps the definitions of names with a record, and with no array,
    map, union or name.
    """
    named: dict[str, Any] = {}
    for text in schema.references.values():
        parse_schema(_simplified(json.loads(text)), named)
    member = {"name": _VALUE, "type": _simplified(json.loads(schema.text))}
    return parse_schema({"type": "record", "name": "StreamstateValue", "fields": [member]}, named)


def writer(schema: Schema) -> Callable[[Any], bytes]:
    """Writes an object; raises for an unfit object."""
    parsed = _parsed(schema)

    def write(value: Any) -> bytes:
        stream = BytesIO()
        schemaless_writer(stream, parsed, {_VALUE: value}, strict_allow_default=True)
        return stream.getvalue()

    return write


def _simplified(schema: Any) -> Any:
    """The schema without the logical types of times, and with `{"type": …}` as its type."""
    if isinstance(schema, list):
        return [_simplified(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.keys() == {"type"}:
        # fastavro reads a primitive type alone in this form.
        return _simplified(schema["type"])
    is_time = str(schema.get("logicalType")).startswith(_TIMES)
    return {
        name: value if name == "default" else _simplified(value)
        for name, value in schema.items()
        if not (is_time and name == "logicalType")
    }
