"""Time windows, and the sums of each key's numbers in the windows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import msgspec

from streamstate.app import LATE, Count, FoldContext, Record
from streamstate.state.operations import Between, ExpireBefore, Insert, Operation, Read

Number = int | float
Sample = tuple[Record[Any, Any], Number | None]
"""A record and its number; a record without a number only advances the time."""


class Summary(msgspec.Struct, array_like=True, frozen=True):
    """The numbers of one key in the window from `start` (milliseconds)."""

    start: int
    count: int
    least: Number
    most: Number
    total: Number

    def add(self, number: Number) -> "Summary":
        """Raises `OverflowError` when the total does not fit in 64 bits."""
        least, most, total = min(self.least, number), max(self.most, number), self.total + number
        if not -(2**63) <= total < 2**63:
            msg = "the total of a window would be beyond 64 bits"
            raise OverflowError(msg)
        return Summary(self.start, self.count + 1, least, most, total)


_decode = msgspec.json.Decoder(Summary).decode


@dataclass(frozen=True)
class Windows:
    """Windows of `size` that start at each multiple of `advance`: tumbling for equal values, else hopping.

    All in milliseconds of stream time, the greatest Kafka timestamp so far, independent of the clock.

    grace: the time after its end for which a window takes records.
    retention: the time after its start for which a window is kept; at least `size` + `grace`.
    """

    size: int
    advance: int
    retention: int
    grace: int = 0

    def __post_init__(self) -> None:
        if not (0 < self.advance <= self.size and self.grace >= 0 and self.retention >= self.size + self.grace):
            msg = f"windows need 0 < advance <= size, grace >= 0 and retention >= size + grace; found {self}"
            raise ValueError(msg)

    @property
    def settings(self) -> Mapping[str, int]:
        """The settings for `Fold.settings`; the retention is not among them, since it only ends windows earlier."""
        return {"size_ms": self.size, "advance_ms": self.advance, "grace_ms": self.grace}

    def starts(self, time: int) -> range:
        """The starts, from 0, of the windows that contain `time`: from the start to before the end."""
        first = (time - self.size) // self.advance * self.advance + self.advance
        return range(max(0, first), time + 1, self.advance)

    def takes(self, start: int, now: int) -> bool:
        """Whether the window from `start` still takes records when the stream time is `now`."""
        return start + self.size + self.grace > now


def clock(records: Iterable[Record[Any, Any]], context: FoldContext) -> Iterator[int]:
    """The stream time at each of `records`: the greatest Kafka timestamp so far, of all topics of the fold."""
    return islice(accumulate((record.stream_time for record in records), max, initial=context.time), 1, None)


@dataclass(frozen=True)
class Update:
    """A window after one more record."""

    record: Record[Any, Any]
    end: int
    summary: Summary


@dataclass(frozen=True)
class Windowed:
    """The windows of every key, kept in the timelines of `family`. For use within a fold's `reads` and `apply`."""

    family: str
    windows: Windows

    def reads(self, records: Iterable[Record[Any, Any]]) -> Iterable[Read]:
        """The reads of `sum_up` for these records."""
        return self._reads(records).values()

    def sum_up(self, samples: Sequence[Sample], context: FoldContext) -> tuple[list[Update], list[Operation | Count]]:
        """Each update of a window, in the order of the records, and the effects for the fold to yield."""
        records = [record for record, _ in samples]
        current = {
            key: {start: _decode(text) for text, start in context.values[read]}
            for key, read in self._reads(records).items()
        }
        updates: list[Update] = []
        late = now = 0
        for (record, number), now in zip(samples, clock(records, context), strict=True):
            if number is None:
                continue
            starts = self.windows.starts(record.timestamp)
            open_starts = [start for start in starts if self.windows.takes(start, now)]
            late += len(open_starts) < len(starts)
            for start in open_starts:
                before = current[record.key].get(start)
                after = before.add(number) if before else Summary(start, 1, number, number, number)
                current[record.key][start] = after
                updates.append(Update(record, start + self.windows.size, after))
        counted = [Count(LATE, late)] if late else []
        return updates, [*self._written(updates), ExpireBefore(self.family, now - self.windows.retention), *counted]

    def _written(self, updates: Iterable[Update]) -> Iterable[Insert]:
        """The last of each window."""
        last = {(update.record.key, update.summary.start): update.summary for update in updates}
        entries: defaultdict[Any, dict[str, int]] = defaultdict(dict)
        for (key, start), summary in last.items():
            entries[key][msgspec.json.encode(summary).decode()] = start
        return [Insert(self.family, str(key), texts, instead=True) for key, texts in entries.items()]

    def _reads(self, records: Iterable[Record[Any, Any]]) -> dict[Any, Between]:
        times: dict[Any, tuple[int, int]] = {}
        for record in records:
            first, last = times.get(record.key, (record.timestamp, record.timestamp))
            times[record.key] = min(first, record.timestamp), max(last, record.timestamp)
        return {key: self._between(key, first, last) for key, (first, last) in times.items()}

    def _between(self, key: Any, first: int, last: int) -> Between:
        start = max(0, first - self.windows.size + 1)
        return Between(timeline(self.family, key), start, last + 1, n=(last - start) // self.windows.advance + 1)


def timeline(family: str, key: Any) -> str:
    """The state key of one timeline of a family, for a `Between`."""
    return f"{family}:{key}"


def summaries(entries: Iterable[tuple[str, int]]) -> list[Summary]:
    """The windows in the answer to a `Between` of a timeline of `Windowed`."""
    return [_decode(text) for text, _start in entries]
