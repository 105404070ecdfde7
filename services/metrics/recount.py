"""The profiles and the plays of each hour, counted again."""

import re
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message

from services.reference_decoding import FIELDS, listening_event, sortable
from streamstate.verify.recount import Recount, Recounted, Stored, unequal

HOUR_MS = 3_600_000
HOURS_OF_PERIOD = 32 * 24
_KEY = re.compile(r"user:([0-9]+)(?::(\w+))?")


class User:
    """The plays of a user."""

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
        self._count = 0
        self._hours: Counter[int] = Counter()
        self._now = self._late = 0

    def add(self, message: Message, stream_time: int) -> bool:
        event = listening_event(message)
        if event is None:
            return False
        self.users.setdefault(event["userId"], User()).add(event)
        self.add_erased(message, stream_time)
        return True

    def add_erased(self, message: Message, stream_time: int) -> None:
        self._count += 1
        hour, self._now = message.timestamp()[1] // HOUR_MS, stream_time // HOUR_MS
        if hour // HOURS_OF_PERIOD < self._now // HOURS_OF_PERIOD - 1:
            self._late += 1
            self.counts = {"late_records": self._late}
        else:
            self._hours[hour] += 1

    def expected_keys(self) -> Iterable[str]:
        yield from self._plays()
        for user in self.users:
            yield f"user:{user}"
            yield from (f"user:{user}:{kind}" for kind in FIELDS)

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        expected = self._plays().get(key) if key.startswith("plays") else self._expected(key)
        return unequal(expected, stored)

    def _plays(self) -> dict[str, Stored]:
        """Over all users: the count, and the hours of the current and the previous period, each under its own key."""
        if not self._count:
            return {}
        expected: dict[str, Stored] = {"plays": {b"count": b"%d" % self._count}}
        current = self._now // HOURS_OF_PERIOD
        for period in (current - 1, current):
            hours = {b"%d" % h: b"%d" % n for h, n in self._hours.items() if h // HOURS_OF_PERIOD == period}
            if hours:
                expected[f"plays:{period % 2}"] = hours
        return expected

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
