"""Session windows: records of one key form a session until a gap without records."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from streamstate.app import LATE, Count
from streamstate.state.operations import Between, Insert, Operation, Remove


class Session(msgspec.Struct, array_like=True, frozen=True):
    """The `count` records of one key from `start` to `end`, the first and last Kafka timestamp (milliseconds)."""

    start: int
    end: int
    count: int


_decode = msgspec.json.Decoder(Session).decode
Entries = Iterable[tuple[str, int]]
"""The entries of a timeline of sessions: a text and the end of each session."""


@dataclass(frozen=True)
class SessionWindows:
    """Sessions of records of a key whose timestamps differ by at most `gap`, so a late record may join two.

    All times are milliseconds of stream time, the greatest Kafka timestamp so far in the partition.

    grace: a record more than `gap` + `grace` older than the stream time is counted as late and dropped.
    retention: the time after its end for which a session is kept; at least 2 `gap` + `grace`, while a record can still
        join.
    """

    gap: int
    retention: int
    grace: int = 0

    def __post_init__(self) -> None:
        if not (self.gap > 0 and self.grace >= 0 and self.retention >= 2 * self.gap + self.grace):
            msg = f"session windows need gap > 0, grace >= 0 and retention >= 2 gap + grace; found {self}"
            raise ValueError(msg)

    def read(self, key: str, first: int) -> Between:
        """The read of the sessions in the timeline `key` that records from the time `first` on may join."""
        return Between(key, first - self.gap)


class KeySessions:
    """The sessions of one key during a batch. stored: the entries of the sessions that records of the batch may join.

    late: the number of late records so far.
    """

    def __init__(self, windows: SessionWindows, stored: Entries) -> None:
        self.late = 0
        self._windows = windows
        self._before = set(sessions(stored))
        self._after = self._before.copy()

    def add(self, time: int, now: int) -> Session | None:
        """Add a record of the time `time` when the stream time is `now`: its session, None for a late record."""
        if time + self._windows.gap + self._windows.grace < now:
            self.late += 1
            return None
        near = {session for session in self._after if self._reaches(session, time)}
        session = _joined(time, near)
        self._after = self._after - near | {session}
        return session

    def effects(self, family: str, key: str) -> Iterator[Operation | Count]:
        """The changed sessions of the timeline `family`:`key`, and the late records."""
        for session in self._before - self._after:
            yield Remove(family, key, _text(session))
        if new := self._after - self._before:
            yield Insert(family, key, {_text(session): session.end for session in new})
        if self.late:
            yield Count(LATE, self.late)

    def _reaches(self, session: Session, time: int) -> bool:
        return session.start - self._windows.gap <= time <= session.end + self._windows.gap


def sessions(entries: Entries) -> list[Session]:
    """The sessions in the answer to a `Between` of a timeline of sessions."""
    return [_decode(text) for text, _end in entries]


def _joined(time: int, near: Collection[Session]) -> Session:
    """The session of a record at `time`, joined with the sessions `near` it."""
    all_of = [Session(time, time, 1), *near]
    return Session(
        min(session.start for session in all_of),
        max(session.end for session in all_of),
        sum(session.count for session in all_of),
    )


def _text(session: Session) -> str:
    return msgspec.json.encode(session).decode()
