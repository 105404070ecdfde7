"""The profiles, counted again."""

import re
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message

from services.reference_decoding import FIELDS, listening_event, sortable
from streamstate.verify.recount import Recount, Recounted, Stored, unequal

_KEY = re.compile(r"user:([0-9]+)(?::(\w+))?")


class User:
    """One user's plays."""

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self.last = 0
        self.plays: dict[str, Counter[int]] = {kind: Counter() for kind in FIELDS}

    def add(self, event: dict[str, int]) -> None:
        time = event["timestamp"]
        self.first = min(self.first, time) if self.count else time
        self.last = max(self.last, time) if self.count else time
        self.count += 1
        for kind, field in FIELDS.items():
            self.plays[kind][event[field]] += 1


class Profiles(Recount):
    """The users of a partition."""

    def __init__(self) -> None:
        self.users: dict[int, User] = {}

    def add(self, message: Message, _stream_time: int) -> bool:
        event = listening_event(message)
        if event is not None:
            self.users.setdefault(event["userId"], User()).add(event)
        return event is not None

    def due(self) -> Iterable[str]:
        for user in self.users:
            yield f"user:{user}"
            yield from (f"user:{user}:{kind}" for kind in FIELDS)

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        return unequal(self._expected(key), stored)

    def _expected(self, key: str) -> Stored | None:
        named = _KEY.fullmatch(key)
        user = self.users.get(int(named[1])) if named else None
        if named is None or user is None:
            return None
        if not named[2]:
            fields = {"count": user.count, "first": user.first, "last": user.last}
            return {name.encode(): str(value).encode() for name, value in fields.items()}
        plays = user.plays.get(named[2])
        return None if plays is None else {sortable(item).encode(): -float(n) for item, n in plays.items()}


RECOUNT = Recounted("metrics", ("listening-events",), Profiles)
