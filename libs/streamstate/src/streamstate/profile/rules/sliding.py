"""The value of a measure in a trailing window of a key, kept up by event. Pure."""

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, Protocol

from streamstate.profile.measure import Measure
from streamstate.profile.windows.histories import WindowMeasure
from streamstate.profile.windows.parts import Row

Entry = tuple[int, Any]
"""The timestamp of an event in milliseconds, and its value."""

_time, _value = itemgetter(0), itemgetter(1)


class _Running(Protocol):
    """A value over the entries of a window. before, after: the timestamps of the neighbours of an entry."""

    def enter(self, entry: Entry, before: int | None, after: int | None) -> None: ...

    def leave(self, entry: Entry, after: int | None) -> None:
        """Take out the first entry."""

    def value(self) -> Any: ...


class _Total:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._total: int = sum(map(_value, entries))

    def enter(self, entry: Entry, _before: int | None, _after: int | None) -> None:
        self._total += entry[1]

    def leave(self, entry: Entry, _after: int | None) -> None:
        self._total -= entry[1]

    def value(self) -> int:
        return self._total


class _Distinct:
    def __init__(self, entries: Sequence[Entry]) -> None:
        self._counts = Counter(map(_value, entries))

    def enter(self, entry: Entry, _before: int | None, _after: int | None) -> None:
        self._counts[entry[1]] += 1

    def leave(self, entry: Entry, _after: int | None) -> None:
        self._counts[entry[1]] -= 1
        if not self._counts[entry[1]]:
            del self._counts[entry[1]]

    def value(self) -> int:
        return len(self._counts)


class _Bound:
    """The least value with the `sign` 1, the greatest with -1: a heap, from whose top outdated entries are dropped."""

    def __init__(self, entries: Sequence[Entry], sign: int) -> None:
        self._sign = sign
        self._heap = [(sign * value, time) for time, value in entries]
        self._left = -1
        heapq.heapify(self._heap)

    def enter(self, entry: Entry, _before: int | None, _after: int | None) -> None:
        heapq.heappush(self._heap, (self._sign * entry[1], entry[0]))

    def leave(self, entry: Entry, _after: int | None) -> None:
        self._left = entry[0]

    def value(self) -> int | None:
        while self._heap and self._heap[0][1] <= self._left:
            heapq.heappop(self._heap)
        return self._sign * self._heap[0][0] if self._heap else None


class _Sessions:
    """The number of entries without another in the time `gap_ms` before them."""

    def __init__(self, entries: Sequence[Entry], gap_ms: int) -> None:
        self._gap_ms = gap_ms
        times = [None, *map(_time, entries)]
        self._number = sum(self._begins(before, time) for before, time in pairwise(times))

    def enter(self, entry: Entry, before: int | None, after: int | None) -> None:
        self._number += self._begins(before, entry[0]) + self._begins(entry[0], after) - self._begins(before, after)

    def leave(self, entry: Entry, after: int | None) -> None:
        self._number += self._begins(None, after) - 1 - self._begins(entry[0], after)

    def _begins(self, before: int | None, time: int | None) -> bool:
        """Whether a session begins at `time`; none begins without an entry there."""
        return time is not None and (before is None or time - before > self._gap_ms)

    def value(self) -> int:
        return self._number


def _running(measure: Measure, entries: Sequence[Entry]) -> _Running:
    match measure.kind:
        case "count" | "total":
            return _Total(entries)
        case "distinct":
            return _Distinct(entries)
        case "sessions":
            return _Sessions(entries, measure.gap_ms)
        case kind:
            return _Bound(entries, 1 if kind == "least" else -1)


class Sliding:
    """The value of a measure over the events of a window whose beginning only rises."""

    def __init__(self, measure: WindowMeasure, rows: Iterable[Row]) -> None:
        """rows: the first events, in the order of their times."""
        self._measure = measure
        self._entries = self._counted(rows)
        self._first = 0
        self._running = _running(measure.measure, self._entries)

    def _counted(self, rows: Iterable[Row]) -> list[Entry]:
        counted, get = self._measure.counted(rows), self._measure.get
        if self._measure.measure.kind == "count":
            return [(row[0], 1) for row in counted]
        return [(row[0], get(row)) for row in counted]

    def add(self, row: Row) -> None:
        """Add an event, not before the window."""
        for entry in self._counted([row]):
            place = bisect_right(self._entries, entry[0], self._first, key=_time)
            before = self._entries[place - 1][0] if place > self._first else None
            self._running.enter(entry, before, self._time(place))
            self._entries.insert(place, entry)

    def value(self, begin: int) -> Any:
        """The value of the events from `begin` (milliseconds) on; None without one for the least and the most."""
        end = bisect_left(self._entries, begin, self._first, key=_time)
        for index in range(self._first, end):
            self._running.leave(self._entries[index], self._time(index + 1))
        self._first = end
        return self._running.value()

    def _time(self, index: int) -> int | None:
        return self._entries[index][0] if index < len(self._entries) else None
