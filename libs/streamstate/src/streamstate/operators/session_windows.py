"""Session windows: records of one key form a session until a gap without records."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamstate.app import LATE, Count, FoldContext, Record
from streamstate.operators.windows import clock, timeline
from streamstate.state.operations import Between, ExpireBefore, Insert, Operation, Read, Remove


class Session(msgspec.Struct, array_like=True, frozen=True):
    """The `count` records of one key from `start` to `end`, the first and last Kafka timestamp (milliseconds)."""

    start: int
    end: int
    count: int


_decode = msgspec.json.Decoder(Session).decode
_Sessions = Mapping[Any, set[Session]]


@dataclass(frozen=True)
class SessionWindows:
    """The sessions of every key, kept in the timelines of `family` by their end. For a fold's `reads` and `apply`.

    Records of a key whose timestamps differ by at most `gap` belong to one session, so a late record may join two. All
    times are milliseconds of stream time, the greatest Kafka timestamp so far in the partition.

    grace: a record more than `gap` + `grace` older than the stream time is counted as late and dropped.
    retention: the time after its end for which a session is kept; at least 2 `gap` + `grace`, while a record can still
        join.
    """

    family: str
    gap: int
    retention: int
    grace: int = 0

    def __post_init__(self) -> None:
        if not (self.gap > 0 and self.grace >= 0 and self.retention >= 2 * self.gap + self.grace):
            msg = f"session windows need gap > 0, grace >= 0 and retention >= 2 gap + grace; found {self}"
            raise ValueError(msg)

    def reads(self, records: Iterable[Record[Any, Any]]) -> Iterable[Read]:
        """The reads of `merge` for these records."""
        return self._reads(records).values()

    def merge(
        self, records: Sequence[Record[Any, Any]], context: FoldContext
    ) -> tuple[list[tuple[Record[Any, Any], Session]], list[Operation | Count]]:
        """The session after each record, in the order of the records, and the effects for the fold to yield.

        Late records have no session.
        """
        before = {key: set(sessions(context.values[read])) for key, read in self._reads(records).items()}
        after = before.copy()
        merged: list[tuple[Record[Any, Any], Session]] = []
        late = now = 0
        for record, now in zip(records, clock(records, context), strict=True):
            if record.timestamp + self.gap + self.grace < now:
                late += 1
                continue
            near = {session for session in after[record.key] if self._reaches(session, record.timestamp)}
            session = _joined(record.timestamp, near)
            after[record.key] = after[record.key] - near | {session}
            merged.append((record, session))
        counted = [Count(LATE, late)] if late else []
        return merged, [*self._changes(before, after), ExpireBefore(self.family, now - self.retention), *counted]

    def _reaches(self, session: Session, time: int) -> bool:
        return session.start - self.gap <= time <= session.end + self.gap

    def _changes(self, before: _Sessions, after: _Sessions) -> Iterator[Operation]:
        for key in after:
            for session in before[key] - after[key]:
                yield Remove(self.family, str(key), _text(session))
            if new := after[key] - before[key]:
                yield Insert(self.family, str(key), {_text(session): session.end for session in new})

    def _reads(self, records: Iterable[Record[Any, Any]]) -> dict[Any, Between]:
        first: dict[Any, int] = {}
        for record in records:
            first[record.key] = min(record.timestamp, first.get(record.key, record.timestamp))
        return {key: Between(timeline(self.family, key), time - self.gap) for key, time in first.items()}


def sessions(entries: Iterable[tuple[str, int]]) -> list[Session]:
    """The sessions in the answer to a `Between` of a timeline of `SessionWindows`."""
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
