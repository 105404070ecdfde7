"""Records and encodings, read and written the plainest way: for the recounts, which share nothing with the folds."""

import json
from typing import Any

from confluent_kafka import Message

FIELDS = {"artists": "artistId", "albums": "albumId", "tracks": "trackId"}
_YEAR_9999_MS = 253_402_300_799_999
_LONG_MAX = 2**63 - 1


def long_key(message: Message) -> int | None:
    """The key, None when it is no id."""
    key = message.key()
    if not isinstance(key, bytes) or len(key) != 8 or key[0] > 127:
        return None
    return int.from_bytes(key, "big")


def text_key(raw: bytes | None) -> str | None:
    """The text of 1 to 1,024 bytes of UTF-8 in `raw`, None when there is none."""
    try:
        return raw.decode() if raw and len(raw) <= 1_024 else None
    except UnicodeDecodeError:
        return None


def parsed(value: bytes) -> Any:
    """The JSON in a value. Raises ValueError, or RecursionError when it is too deep."""
    return json.loads(value.decode(), parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def document(value: bytes | None) -> dict[str, Any] | None:
    """The JSON object in a value, None when there is none."""
    try:
        content = parsed(value or b"")
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def is_id(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LONG_MAX


def listening_event(message: Message) -> dict[str, int] | None:
    """The play in `message`, None when it cannot be used."""
    event = document(message.value())
    if event is None or not all(is_id(event.get(name)) for name in ("userId", "timestamp", *FIELDS.values())):
        return None
    if event["userId"] != long_key(message) or event["timestamp"] > _YEAR_9999_MS:
        return None
    return event


def sortable(number: int) -> str:
    """The digits behind a letter for how many there are: a for one, b for two."""
    return "abcdefghijklmnopqrs"[len(str(number)) - 1] + str(number)
