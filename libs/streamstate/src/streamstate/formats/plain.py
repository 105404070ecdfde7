"""Values without a schema: what Kafka's own serializers write, and what services read."""

import struct
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import msgspec

from streamstate.app import Form
from streamstate.errors import BadRecord

_json = msgspec.json.Encoder(decimal_format="number").encode

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]


def _numbers(layout: str) -> tuple[Read, Write]:
    packed = struct.Struct(layout)

    def read(raw: bytes) -> Any:
        if len(raw) != packed.size:
            msg = f"the value must have {packed.size} bytes; found {len(raw)}"
            raise BadRecord(msg)
        return packed.unpack(raw)[0]

    return read, packed.pack


def _text(raw: bytes) -> str:
    return raw.decode()


def _uuid(raw: bytes) -> str:
    return str(UUID(raw.decode()))


SERDES: Mapping[str, tuple[Read, Write]] = {
    "json": (msgspec.json.decode, _json),
    "string": (_text, lambda value: str(value).encode()),
    "long": _numbers(">q"),
    "int": _numbers(">i"),
    "double": _numbers(">d"),
    "uuid": (_uuid, lambda value: str(UUID(value)).encode()),
    "bytes": (bytes, lambda value: value.encode() if isinstance(value, str) else value),
}
"""How values of each format are read and written: numbers as int and float, strings and UUIDs as str."""


def as_read(form: Form, value: Any) -> bytes:
    """`value` as a service reads it in this form; records have no plain text, and are JSON there too."""
    if form == "text":
        match value:
            case str():
                return value.encode()
            case bytes():
                return value
    return _json(value)


def as_object(kind: type, value: bytes) -> Any:
    """What a service wrote for a value of the type `kind`, as an object."""
    if kind is str:
        return value.decode()
    return msgspec.json.decode(value)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """`value`, where it is a record, with the members in `names` under the names that these give."""
    if isinstance(value, dict):
        for old, new in names.items():
            if old in value:
                value[new] = value.pop(old)
    return value


def picked(value: Any, field: str) -> Any:
    """The member `field` where `value` is a record. Raises `BadRecord` when it has none of this name."""
    if not isinstance(value, dict):
        return value
    if field not in value:
        msg = f"the record has no member {field}"
        raise BadRecord(msg)
    return value[field]
