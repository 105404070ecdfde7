"""A long history of a key between two answers: most of a window stays the same for an hour."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from streamstate.profile.windows.parts import Part, Row
from streamstate.state.operations import DAY_MS

HOUR_MS = 3_600_000
_HOURS = 24
_EDGES = 16
"""The days of which the events are kept by hour."""

_rows = msgspec.json.Decoder(Row).decode_lines

Parts = Mapping[str, Part]
"""The part of each measure."""


class Whole(NamedTuple):
    """The parts of the events from the hour `first` to the hour `last` since 1970, both inclusive."""

    first: int
    last: int
    parts: Parts


class BusyHistory:
    """The lines of a key by day, and the parts of the whole hours of each window.

    An answer compares all lines: the parts are of these lines, never of older lines.
    """

    def __init__(self, days: Mapping[int, str]) -> None:
        self._days = dict(days)
        self._whole: dict[str, Whole] = {}
        self._hours: dict[int, defaultdict[int, list[Row]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._days.values()))

    def continued(self, days: Mapping[int, str]) -> bool:
        """Whether `days` only add lines to the days here, or leave days out; takes `days` over. Else: start anew."""
        for day in self._days.keys() - days.keys():
            del self._days[day]
            self._hours.pop(day, None)
            self._forget(range(day * _HOURS, (day + 1) * _HOURS))
        for day, lines in days.items():
            held = self._days.get(day, "")
            if len(lines) < len(held) or not lines.startswith(held):
                return False
            if len(lines) > len(held):
                self._add(day, lines[len(held) :])
                self._days[day] = lines
        return True

    def _add(self, day: int, lines: str) -> None:
        added = rows(day, lines)
        self._forget({row[0] // HOUR_MS for row in added})
        if (by_hour := self._hours.get(day)) is not None:
            for row in added:
                by_hour[row[0] // HOUR_MS].append(row)

    def _forget(self, hours: Iterable[int]) -> None:
        """Forget the parts of events in `hours`."""
        for hour in hours:
            self._whole = {label: each for label, each in self._whole.items() if not each.first <= hour <= each.last}

    def within(
        self, label: str, start: int, end: int, make: Callable[[Sequence[Row]], Parts]
    ) -> tuple[Sequence[Row], Parts | None]:
        """The events of a window before and after its whole hours, and the parts that `make` has made of these hours.

        label: the window's. start, end: its first and last moment.
        """
        first, last = -(-start // HOUR_MS), (end + 1) // HOUR_MS - 1
        edges = sorted({start // HOUR_MS, end // HOUR_MS} - {*range(first, last + 1)})
        outside = [row for hour in edges for row in self._of_hour(hour) if start <= row[0] <= end]
        if last < first:
            return outside, None
        whole = self._whole.get(label)
        if whole is None or (whole.first, whole.last) != (first, last):
            inside = list(self._between(first * HOUR_MS, (last + 1) * HOUR_MS))
            whole = self._whole[label] = Whole(first, last, make(inside))
        return outside, whole.parts

    def _between(self, start: int, end: int) -> Iterator[Row]:
        for day in sorted(self._days):
            if start < (day + 1) * DAY_MS and day * DAY_MS < end:
                yield from (row for row in rows(day, self._days[day]) if start <= row[0] < end)

    def _of_hour(self, hour: int) -> Sequence[Row]:
        day = hour * HOUR_MS // DAY_MS
        if day not in self._hours:
            while len(self._hours) >= _EDGES:
                del self._hours[min(self._hours)]
            by_hour = self._hours[day] = defaultdict(list)
            for row in rows(day, self._days.get(day, "")):
                by_hour[row[0] // HOUR_MS].append(row)
        return self._hours[day].get(hour, ())


def rows(day: int, lines: str) -> list[Row]:
    """The events of a day in the order of their offsets, with timestamps instead of times since midnight."""
    of_day, midnight = _rows(lines), day * DAY_MS
    for row in of_day:
        row[0] += midnight
    return of_day
