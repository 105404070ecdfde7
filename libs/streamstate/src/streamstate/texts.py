"""Texts of people: their times, and the reasons of msgspec in their words."""

import re
from datetime import UTC, datetime

NOUNS = {
    "object": "a map",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
"""The types of msgspec for people."""


_NUMBER = re.compile(r"-?[0-9]{1,19}(\.0+)?", re.ASCII)
"""A whole number as JSON may write it."""


def plain(reason: str) -> str:
    """A reason of msgspec, without names of types and patterns."""

    def noun(found: re.Match[str]) -> str:
        kinds = [kind for kind in found[1].split(" | ") if kind != "null"] or ["null"]
        return " or ".join(NOUNS.get(kind, kind) for kind in kinds)

    said, pattern, _ = re.sub("`([a-z |]+)`", noun, reason).replace(", got", ", found").partition(" matching regex")
    return f"{said[:1].lower()}{said[1:]}{' of another form' * bool(pattern)}"


def milliseconds(text: str) -> int:
    """A time in milliseconds since 1970, from such a number or ISO 8601 (without a zone: UTC). Raises `ValueError`."""
    try:
        if _NUMBER.fullmatch(text):
            return int(text.partition(".")[0])
        time = datetime.fromisoformat(text)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError) as error:
        msg = f"{text[:40]!r} is no time; write 2026-01-31T09:00:00Z, or milliseconds since 1970"
        raise ValueError(msg) from error
