"""Decoding for the recounts. It shares no code with the folds, so that a defect of one shows as a difference."""

import json
from typing import Any

from confluent_kafka import Message

FIELDS = {"artists": "artistId", "albums": "albumId", "tracks": "trackId"}
_YEAR_9999_MS = 253_402_300_799_999
_LONG_MAX = 2**63 - 1


def long_key(message: Message) -> int | None:
    """The key as an id, None when it is not one."""
    key = message.key()
    if not isinstance(key, bytes) or len(key) != 8 or key[0] > 127:
        return None
    return int.from_bytes(key, "big")


def text_key(raw: bytes | None) -> str | None:
    """The text of a key of 1 to 1,024 bytes of UTF-8, None for any other."""
    try:
        return raw.decode() if raw and len(raw) <= 1_024 else None
    except UnicodeDecodeError:
        return None


def parsed(value: bytes) -> Any:
    """A JSON value. Raises `ValueError`, or `RecursionError` when it is nested too deeply."""
    return json.loads(value.decode(), parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def document(value: bytes | None) -> dict[str, Any] | None:
    """A JSON object, None when the value is not one."""
    try:
        content = parsed(value or b"")
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LONG_MAX


def listening_event(message: Message) -> dict[str, int] | None:
    """The listening event in `message`, None when it is invalid."""
    event = document(message.value())
    if event is None or not all(is_id(event.get(name)) for name in ("userId", "timestamp", *FIELDS.values())):
        return None
    if event["userId"] != long_key(message) or event["timestamp"] > _YEAR_9999_MS:
        return None
    return event


def sortable(number: int) -> str:
    """The number after a letter for its count of digits (a: 1, b: 2), so that texts sort as the numbers do."""
    return "abcdefghijklmnopqrs"[len(str(number)) - 1] + str(number)
