"""Time windows, and the sums of each key's numbers in the windows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import msgspec

from streamstate.app import LATE, Count, FoldContext, Record
from streamstate.state.operations import Between, Insert, Operation

Number = int | float
Entries = Iterable[tuple[str, int]]
"""The entries of a timeline of windows: a text and the start of each window."""


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

    def read(self, key: str, first: int, last: int) -> Between:
        """The read of the windows in the timeline `key` that contain the times `first`, `last`, or any between."""
        start = max(0, first - self.size + 1)
        return Between(key, start, last + 1, n=(last - start) // self.advance + 1)


def clock(records: Iterable[Record[Any, Any]], context: FoldContext) -> Iterator[int]:
    """The stream time at each of `records`: the greatest Kafka timestamp so far, of all topics of the fold."""
    return islice(accumulate((record.stream_time for record in records), max, initial=context.time), 1, None)


class KeyWindows:
    """The windows of one key during a batch. stored: the entries of the windows that records of the batch may change.

    late: the number of records so far that a window no longer takes.
    """

    def __init__(self, windows: Windows, stored: Entries) -> None:
        self.late = 0
        self._windows = windows
        self._current = {start: _decode(text) for text, start in stored}
        self._changed: dict[int, Summary] = {}

    def add(self, time: int, number: Number, now: int) -> list[Summary]:
        """Add a number of the time `time` when the stream time is `now`; returns the changed windows by start."""
        starts = self._windows.starts(time)
        open_starts = [start for start in starts if self._windows.takes(start, now)]
        self.late += len(open_starts) < len(starts)
        for start in open_starts:
            before = self._current.get(start)
            after = before.add(number) if before else Summary(start, 1, number, number, number)
            self._current[start] = self._changed[start] = after
        return [self._current[start] for start in open_starts]

    def effects(self, family: str, key: str) -> Iterator[Operation | Count]:
        """The changed windows of the timeline `family`:`key`, and the late records."""
        if self._changed:
            entries = {msgspec.json.encode(window).decode(): start for start, window in self._changed.items()}
            yield Insert(family, key, entries, instead=True)
        if self.late:
            yield Count(LATE, self.late)


def timeline(family: str, key: Any) -> str:
    """The state key of one timeline of a family, for a `Between`."""
    return f"{family}:{key}"


def summaries(entries: Entries) -> list[Summary]:
    """The windows in the answer to a `Between` of a timeline of windows."""
    return [_decode(text) for text, _start in entries]
