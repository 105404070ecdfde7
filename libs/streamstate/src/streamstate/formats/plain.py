"""Values without a schema: the output of Kafka's own serializers, and the input of services."""

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from streamstate.app import Form
from streamstate.errors import BadRecord
from streamstate.keys import UUID_PATTERN

_UUID = re.compile(UUID_PATTERN, re.IGNORECASE)
_encode = msgspec.json.Encoder(decimal_format="number").encode

WITHIN = "."
"""Between the names of a member and of a member within it."""

_MISSING = object()

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


def read_json(raw: bytes) -> Any:
    """A JSON value. Its texts may have surrogates without a pair, as its reader may not read them.

    Raises `msgspec.DecodeError`, or `UnicodeDecodeError`.
    """
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        with suppress(ValueError, RecursionError):
            return json.loads(raw.decode(errors="surrogateescape"), parse_constant=int, parse_float=_finite)
        raise


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _json(value: Any) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def _text(raw: bytes) -> str:
    return raw.decode()


def _uuid(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise ValueError(text)
    return text.lower()


SERDES: Mapping[str, tuple[Read, Write]] = {
    "json": (read_json, _json),
    "string": (_text, lambda value: str(value).encode()),
    "long": _numbers(">q"),
    "int": _numbers(">i"),
    "double": _numbers(">d"),
    "uuid": (lambda raw: _uuid(raw.decode()), lambda value: _uuid(value).encode()),
    "bytes": (bytes, lambda value: value.encode() if isinstance(value, str) else value),
}
"""How values of each format are read and written: numbers as int and float, strings and UUIDs as str."""


def as_read(form: Form, value: Any) -> bytes:
    """`value` as a service reads it in `form`; records have no plain text, and are JSON in both forms."""
    if form == "text":
        match value:
            case str():
                return value.encode()
            case bytes():
                return value
    return _json(value)


def as_object(kind: type, value: bytes) -> Any:
    """A value written by a service, of the type `kind`, as an object."""
    if kind is str:
        return value.decode()
    return msgspec.json.decode(value)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """`value` with its members renamed by `names`, if it is a record.

    A member within a member (`user.id`) is copied, any other moved.
    """
    if isinstance(value, dict):
        found = {}
        for old, new in names.items():
            if old in value:
                found[new] = value.pop(old)
            elif WITHIN in old and (inner := _within(value, old)) is not _MISSING:
                found[new] = inner
        value |= found
    return value


def picked(value: Any, field: str) -> Any:
    """The member `field` of `value`, if it is a record. Raises `BadRecord` for a missing member."""
    if not isinstance(value, dict):
        return value
    found = value[field] if field in value else _within(value, field)
    if found is _MISSING:
        msg = f"the record has no member {field}"
        raise BadRecord(msg)
    return found


def _within(value: Any, path: str) -> Any:
    """The nested member at `path`, `_MISSING` where there is none."""
    for name in path.split(WITHIN):
        if not isinstance(value, dict) or name not in value:
            return _MISSING
        value = value[name]
    return value
