"""Decoding for the recounts, without code of the folds, so that a defect of either side shows as a difference."""

import json
from typing import Any
from uuid import UUID

from confluent_kafka import Message

FIELDS = {"artists": "artistId", "albums": "albumId", "tracks": "trackId"}
_YEAR_9999_MS = 253_402_300_799_999
_LONG_MAX = 2**63 - 1


def number_key(raw: bytes | None, size: int) -> int | None:
    """The key as an id of `size` bytes, None for another key."""
    if not isinstance(raw, bytes) or len(raw) != size or raw[0] > 127:
        return None
    return int.from_bytes(raw, "big")


def long_key(message: Message) -> int | None:
    """The key as an id of 8 bytes, None for another key."""
    return number_key(message.key(), 8)


def text_key(raw: bytes | None) -> str | None:
    """The text of a key of 1 to 1,024 bytes of UTF-8, None for any other."""
    try:
        return raw.decode() if raw and len(raw) <= 1_024 else None
    except UnicodeDecodeError:
        return None


def uuid_key(raw: bytes | None) -> str | None:
    """The text of a key with a UUID in its usual form, None for another key."""
    text = text_key(raw)
    try:
        return text if text is not None and str(UUID(text)) == text else None
    except ValueError:
        return None


def pair_key(raw: bytes | None) -> str | None:
    """The text of a key of two parts separated by a colon, None for another key."""
    text = text_key(raw)
    return text if text is not None and all(text.partition(":")) else None


def parsed(value: bytes) -> Any:
    """A JSON value. Raises `ValueError`, or `RecursionError` for too deep nesting."""
    return json.loads(value.decode(), parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def document(value: bytes | None) -> dict[str, Any] | None:
    """A JSON object, None for another value."""
    try:
        content = parsed(value or b"")
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LONG_MAX


def listening_event(message: Message) -> dict[str, int] | None:
    """The listening event in `message`, None for an invalid event."""
    event = document(message.value())
    if event is None or not all(is_id(event.get(name)) for name in ("userId", "timestamp", *FIELDS.values())):
        return None
    if event["userId"] != long_key(message) or event["timestamp"] > _YEAR_9999_MS:
        return None
    return event


def sortable(number: int) -> str:
    """The number after a letter for its count of digits (a: 1, b: 2), so that texts sort like their numbers."""
    return "abcdefghijklmnopqrs"[len(str(number)) - 1] + str(number)
