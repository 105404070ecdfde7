"""Decoding for the recounts, without code of the folds, so that a defect of either side shows as a difference."""

import json
from typing import Any

from confluent_kafka import Message

FIELDS = {"artists": "artistId", "albums": "albumId", "tracks": "trackId"}
_YEAR_9999_MS = 253_402_300_799_999
_LONG_MAX = 2**63 - 1


def _long_key(raw: bytes | None) -> int | None:
    """The key as an id of 8 bytes, None for another key."""
    return int.from_bytes(raw, "big") if isinstance(raw, bytes) and len(raw) == 8 and raw[0] <= 127 else None


def text_key(raw: bytes | None) -> str | None:
    """The text of a key of 1 to 1,024 bytes of UTF-8, None for any other."""
    try:
        return raw.decode() if raw and len(raw) <= 1_024 else None
    except UnicodeDecodeError:
        return None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def document(value: bytes | None) -> dict[str, Any] | None:
    """A JSON object, None for another value."""
    try:
        # Texts of members that are not read may have no UTF-8, and numbers any length.
        text = (value or b"").decode(errors="surrogateescape")
        content = json.loads(text, parse_constant=_refuse, parse_int=lambda digits: int(digits[:99]))
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LONG_MAX


def listening_event(message: Message) -> dict[str, int] | None:
    """The listening event in `message`, None for an invalid event."""
    event = document(message.value())
    if event is None or not all(_is_id(event.get(name)) for name in ("userId", "timestamp", *FIELDS.values())):
        return None
    if event["userId"] != _long_key(message.key()) or event["timestamp"] > _YEAR_9999_MS:
        return None
    return event


def sortable(number: int) -> str:
    """The number after a letter for its count of digits (a: 1, b: 2), so that texts sort like their numbers."""
    return "abcdefghijklmnopqrs"[len(str(number)) - 1] + str(number)
