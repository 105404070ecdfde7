"""Decoding of a record: its value as JSON text, and its number for windows."""

import base64
from collections.abc import Callable
from typing import Any

import msgspec

from services.topics.settings import KeptTopic
from streamstate.errors import BadRecord
from streamstate.operators.windows import Number

MOST = 2**53
"""The greatest size of a number: sums of such are as exact as JSON's."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A value as JSON text, None for a tombstone; its number where there are windows."""

    text: str | None
    number: Number | None = None


Decode = Callable[[Any, bytes | None], Kept]


def decoder(kept: KeptTopic) -> Decode:
    """The decoder of the topic's records; raises `BadRecord` for a record of other types."""
    text = {"json": _json, "text": _text, "bytes": _base64}[kept.value]

    def decode(_key: Any, value: bytes | None) -> Kept:
        if value is None:
            return Kept(None)
        return Kept(text(value), number(value, kept.windows.field) if kept.windows else None)

    return decode


def number(value: bytes, field: str) -> Number:
    """The number in a JSON object."""
    content = msgspec.json.decode(value)
    if not isinstance(content, dict) or field not in content:
        msg = f"the value must be a JSON object with the number {field}"
        raise BadRecord(msg)
    size = content[field]
    if isinstance(size, bool) or not isinstance(size, int | float) or not -MOST <= size <= MOST:
        msg = f"{field} must be a number from -2^53 to 2^53"
        raise BadRecord(msg)
    return size


def _json(value: bytes) -> str:
    msgspec.json.decode(value)
    return value.decode()


def _text(value: bytes) -> str:
    return msgspec.json.encode(value.decode()).decode()


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'
