"""The tables and the recent plays, counted again."""

import re
from collections.abc import Hashable, Iterable
from heapq import heappush, heappushpop

from confluent_kafka import Message

from services.reference_decoding import FIELDS, document, is_id, listening_event, long_key, sortable
from streamstate.verify.recount import Published, Recount, Recounted, Stored, unequal

EVENTS = "listening-events"
RECENT = 50
_LONE = re.compile(r"[\ud800-\udfff]")
"""Halves of surrogate pairs: valid in JSON escapes, invalid in UTF-8."""

Ids = tuple[int, ...]
"""The content of a play, in the order of `_ids`."""


def _ids(event: dict[str, int]) -> Ids:
    return tuple(event[name] for name in ("userId", "timestamp", *FIELDS.values()))


def _name(key: int, value: bytes | None) -> str | None:
    """The name in the value of a table's record, None for an invalid value."""
    record = document(value) or {}
    name = record.get("name")
    usable = is_id(record.get("id")) and record["id"] == key and isinstance(name, str) and not _LONE.search(name)
    return name if usable else None


class NamesRecount(Recount):
    """The rows and the users of a partition."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}
        self._plays: dict[str, list[tuple[int, str]]] = {}

    def add(self, message: Message, _stream_time: int) -> bool:
        topic = str(message.topic())
        return self._add_play(message) if topic == EVENTS else self._add_row(topic, message)

    def _add_play(self, message: Message) -> bool:
        event = listening_event(message)
        if event is None:
            return False
        newest = self._plays.setdefault(f"user:{event['userId']}:plays", [])
        push = heappush if len(newest) < RECENT else heappushpop
        member = " ".join([sortable(message.offset() or 0), *(str(event[field]) for field in FIELDS.values())])
        push(newest, (event["timestamp"], member))
        return True

    def _add_row(self, topic: str, message: Message) -> bool:
        key, value = long_key(message), message.value()
        if key is None:
            return False
        if value is None:
            self._rows.pop(f"{topic}:{key}", None)
            return True
        name = _name(key, value)
        if name is None:
            return False
        self._rows[f"{topic}:{key}"] = name
        return True

    def expected_keys(self) -> Iterable[str]:
        yield from self._rows
        yield from self._plays

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        return unequal(self._expected(key), stored)

    def _expected(self, key: str) -> Stored | None:
        if key in self._plays:
            return {member.encode(): float(time) for time, member in self._plays[key]}
        return self._rows[key].encode() if key in self._rows else None


def _caused(message: Message) -> Hashable | None:
    event = listening_event(message) if message.topic() == EVENTS else None
    return None if event is None else (message.key(), _ids(event))


def _content(message: Message) -> Hashable:
    return message.key(), _ids(document(message.value()) or {})


RECOUNT = Recounted(
    "names",
    (*FIELDS, EVENTS),
    NamesRecount,
    published=Published("listening-events-enriched", _caused, _content),
)
