"""The tables and the recent plays, counted again."""

import re
from collections.abc import Hashable, Iterable
from heapq import heappush, heappushpop

from confluent_kafka import Message

from services.reference_decoding import FIELDS, document, is_id, listening_event, long_key, sortable
from streamstate.verify.recount import Published, Recount, Recounted, Stored, Versions, unequal

EVENTS = "listening-events"
RECENT = 50
_RECENT = re.compile(r"user:([0-9]+):recent")
_LONE = re.compile(r"[\ud800-\udfff]")
"""Halves of surrogate pairs, which JSON can write and UTF-8 cannot."""

Ids = tuple[int, ...]
"""What a play says, in the order of `_ids`."""


def _ids(event: dict[str, int]) -> Ids:
    return tuple(event[name] for name in ("userId", "timestamp", *FIELDS.values()))


def _name(key: int, value: bytes | None) -> str | None:
    """The name in the value of a table's record, None when it cannot be used."""
    found = document(value) or {}
    name = found.get("name")
    usable = is_id(found.get("id")) and found["id"] == key and isinstance(name, str) and not _LONE.search(name)
    return name if usable else None


class Names(Recount):
    """The rows and the users of a partition."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._rows: dict[str, str] = {}
        self._recent: dict[int, list[tuple[int, str, Ids]]] = {}

    def add(self, message: Message) -> bool:
        topic = str(message.topic())
        return self._add_play(message) if topic == EVENTS else self._add_row(topic, message)

    def _add_play(self, message: Message) -> bool:
        event = listening_event(message)
        if event is None:
            return False
        newest = self._recent.setdefault(event["userId"], [])
        put = heappush if len(newest) < RECENT else heappushpop
        put(newest, (event["timestamp"], sortable(message.offset() or 0), _ids(event)))
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

    def due(self) -> Iterable[str]:
        yield from self._rows
        yield from (f"user:{user}:recent" for user in self._recent)

    def wrong(self, key: str, found: Stored | None) -> str | None:
        """The names in recent plays may be of any version, or null: they are those of the moment of the look-up."""
        user = _RECENT.fullmatch(key)
        if user is None or int(user[1]) not in self._recent:
            return unequal(self._rows[key].encode() if key in self._rows else None, found)
        expected = {place: (time, ids) for time, place, ids in self._recent[int(user[1])]}
        if not isinstance(found, dict):
            return unequal(expected, found)
        plays = {}
        for member, score in found.items():
            place, _, text = member.decode().partition(" ")
            play = document(text.encode()) or {}
            plays[place] = (score, _ids(play))
            for kind, field in FIELDS.items():
                if (reason := self._wrong_name(kind, play[field], play[field.replace("Id", "Name")])) is not None:
                    return reason
        return unequal(expected, plays)

    def _wrong_name(self, kind: str, item: int, name: str | None) -> str | None:
        versions = self._versions.get((kind, item.to_bytes(8, "big")), ())
        if name is None or name in {_name(item, value) for value in versions}:
            return None
        return f"{name!r} was never the name of {item} in {kind}"


def _caused(message: Message) -> Hashable | None:
    event = listening_event(message) if message.topic() == EVENTS else None
    return None if event is None else (message.key(), _ids(event))


def _content(message: Message) -> Hashable:
    return message.key(), _ids(document(message.value()) or {})


RECOUNT = Recounted(
    "names",
    (*FIELDS, EVENTS),
    Names,
    tables=tuple(FIELDS),
    published=Published("listening-events-enriched", _caused, _content),
)
