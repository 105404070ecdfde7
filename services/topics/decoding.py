"""Decoding of a record: its value as JSON text, and its number for windows."""

import base64
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple

import msgspec

from services.topics.settings import KeptTopic

_EXACT = msgspec.Meta(ge=-(2**53), le=2**53)
"""Sums of such numbers are as exact as JSON's."""


class KeptValue(NamedTuple):
    """A value as JSON text, None for a tombstone; its number where there are windows."""

    text: str | None
    number: int | float | None = None


def decoder(kept: KeptTopic) -> Callable[[Any, bytes | None], KeptValue]:
    """The decoder of the topic's records; raises a `ValueError` for a record of other types."""
    text = _TEXTS[kept.value]

    def decode(_key: Any, value: bytes | None) -> KeptValue:
        if value is None:
            return KeptValue(None)
        return KeptValue(text(value), _numbered(kept.windows.field)(value).number if kept.windows else None)

    return decode


@cache
def _numbered(field: str) -> Callable[[bytes], Any]:
    """The decoder of JSON objects with a number as `field`."""
    members = [("number", Annotated[int, _EXACT] | Annotated[float, _EXACT])]
    return msgspec.json.Decoder(msgspec.defstruct("Numbered", members, rename={"number": field})).decode


def _json(value: bytes) -> str:
    msgspec.json.decode(value)
    return value.decode()


_TEXTS: Mapping[str, Callable[[bytes], str]] = {
    "json": _json,
    "text": lambda value: msgspec.json.encode(value.decode()).decode(),
    "bytes": lambda value: f'"{base64.b64encode(value).decode()}"',
}
