"""A profile folded over the rows of a file, in memory, by the folds and views of a service."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from streamstate.cli.profiles.dry_run import reason
from streamstate.cli.trial.members import Members, event_time, member
from streamstate.cli.trial.rows import Row
from streamstate.errors import BadKey, BadRecord, Declined
from streamstate.keys import CODECS
from streamstate.processing.decode import RawRecord
from streamstate.processing.limits import Limits, TimestampLimit
from streamstate.profile import profile_app
from streamstate.profile.declaration import Declaration
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from streamstate.view import parameters

_FUTURE_MS = 3_600_000
"""A stream's default: a time further ahead of the clock is refused."""


class Trial:
    """The state of `declared` after the rows fed so far; the offset of a row is its line.

    owner: the address of the API that answers, if any. refused: the lines of refused rows by reason. latest: the time
    of the last event, in milliseconds.
    """

    def __init__(self, declared: Declaration, members: Members, now_ms: int, owner: str) -> None:
        # The file's member is the key, so no record is sent again by another key.
        self.app = profile_app(msgspec.structs.replace(declared, key=declared.key_type))
        self.store, self._members, self._now = MemoryStore(), members, now_ms
        [self.topic], self._codec = self.app.topics, CODECS[declared.key_type]
        limits = Limits(timestamps=TimestampLimit({self.topic: _FUTURE_MS}))
        self._driver = Driver(self.app, self.store, limits=limits, owner=owner)
        self._events: Counter[bytes] = Counter()
        self.refused: defaultdict[str, list[int]] = defaultdict(list)
        self.rows, self.latest, self.next = 0, 0, 0

    def feed(self, rows: Iterable[Row]) -> None:
        """Fold further rows."""
        records: list[RawRecord] = []
        for line, value in rows:
            self.rows, self.next = self.rows + bool(value), line + 1
            try:
                records += [self._record(line, value)] if value else []
            except (BadKey, BadRecord, msgspec.DecodeError) as error:
                self.refused[str(error)].append(line)
        self._driver.feed(0, {self.topic: records})
        self._events.update(key for *_, key, _ in records if key)
        for letter in self._driver.dead:
            self.refused[reason(letter)].append(letter.offset)
            self._events.subtract([letter.key or b""])
        self._driver.dead.clear()
        self.latest = self.store.read({0: ()})[0].times.get(self.topic, 0)

    def _record(self, line: int, value: bytes) -> RawRecord:
        content, members = msgspec.json.decode(value), self._members
        key = self._codec.encode(self._codec.parse(str(member(content, members.key))))
        time = event_time(member(content, members.time), members.unit) if members.time else self._now
        return line, time, key, value

    def busiest(self, number: int) -> list[str]:
        """The keys with most events, as in a URL; a single empty one of a profile over all keys."""
        events = self._events.most_common(number) if self.app.views[0].key else []
        return [str(self._codec.decode(key)) for key, count in events if count > 0] or [""]

    def answer(self, key: str, at: str) -> Any:
        """The answer for `key` as of `at`, or else of the last event. Raises `BadKey`, `BadParameter`, `Declined`."""
        view = self.app.views[0]
        query = None if view.query is None else parameters(view.query, {"at": at or str(self.latest)})
        if (answer := self._driver.view(view.name, key, query)) is None:
            msg = f"no event has the key {key}; the keys with most events are {', '.join(self.busiest(5))}"
            raise Declined(msg)
        return msgspec.to_builtins(answer)
