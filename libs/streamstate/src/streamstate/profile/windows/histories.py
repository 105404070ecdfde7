"""Measures over trailing windows, from the events that a history keeps as lines of JSON by day."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from cachetools import LRUCache

from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import TIMESTAMP
from streamstate.profile.measure import Measure
from streamstate.profile.windows.parts import ALGEBRAS, Part, Row
from streamstate.state.operations import DAY_MS

BUSY_DAY = 4_096
"""A day with at least so many characters of lines has its parts in a cache."""

_CACHED = 32 * 2**20
"""The size of the cache of a profile in a process, in characters of lines."""

_rows = msgspec.json.Decoder(Row).decode_lines


CachedParts = tuple[int, Mapping[str, Part]]
"""The characters of a day's lines, and the part of each measure: a result that merges with the parts of other days."""


class TrailingWindows:
    """The measures of `declared` that have windows."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._measures = [(each, WindowMeasure(each, declared)) for each in declared.resolved if each.windows]
        self._busy: LRUCache[tuple[int, str], CachedParts] = LRUCache(_CACHED, itemgetter(0))

    def values(self, days: Mapping[int, str], spans: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, Any]]:
        """The value of each measure by window.

        days: the lines by day. spans: the first and last moment of each window.
        """
        first, last = (moment // DAY_MS for moment in spans[self._declared.windows[0].label])
        within = sorted(day for day in days if first <= day <= last)
        busy = {day: days[day] for day in within if len(days[day]) >= BUSY_DAY}
        quiet = [row for day in within if day not in busy for row in rows(day, days[day])]
        found: dict[str, dict[str, Any]] = {measure.name: {} for measure, _ in self._measures}
        for window in self._declared.windows:
            start, end = spans[window.label]
            # Each window is within the longer windows.
            quiet = [row for row in quiet if start <= row[0] <= end]
            parts = [self._parts(day, lines, start, end) for day, lines in busy.items()]
            for measure, of_window in self._measures:
                if window in measure.windows:
                    each = [of_window.part(quiet), *(part[measure.name] for part in parts if part)]
                    found[measure.name][window.label] = of_window.value(each)
        return found

    def _parts(self, day: int, lines: str, start: int, end: int) -> Mapping[str, Part]:
        """The parts of a busy day within a window, by measure."""
        first, last = day * DAY_MS, (day + 1) * DAY_MS - 1
        if last < start or end < first:
            return {}
        if start <= first and last <= end:
            _, parts = self._busy.get((day, lines), (0, None))
            if parts is None:
                parts = self._of(rows(day, lines))
                if len(lines) < _CACHED:
                    self._busy[day, lines] = len(lines), parts
            return parts
        return self._of([row for row in rows(day, lines) if start <= row[0] <= end])

    def _of(self, of_day: Sequence[Row]) -> Mapping[str, Part]:
        return {measure.name: of_window.part(of_day) for measure, of_window in self._measures}


def rows(day: int, lines: str) -> list[Row]:
    """The events of a day in the order of their offsets, with timestamps instead of times since midnight."""
    of_day, midnight = _rows(lines), day * DAY_MS
    for row in of_day:
        row[0] += midnight
    return of_day


class WindowMeasure:
    """One measure of `declared`; with `by`, a part is the parts by value."""

    def __init__(self, measure: Measure, declared: Declaration) -> None:
        columns = {TIMESTAMP: 0} | {field: 1 + index for index, field in enumerate(declared.windowed_fields)}

        def get(field: str) -> Callable[[Row], Any]:
            return itemgetter(columns[field])

        self._measure = measure
        self._algebra = ALGEBRAS[measure.kind]
        self._kept = measure.where.compiled(get)
        self._get = get(measure.field or TIMESTAMP)
        self._by = get(measure.by) if measure.by else None
        self._text = declared.types[measure.by].text if measure.by else str
        self._weight = get(measure.weight) if measure.weight else None

    def part(self, rows: Iterable[Row]) -> Part:
        """The part of `rows`."""
        get, kept = self._get, rows if self._kept is None else filter(self._kept, rows)
        present = [row for row in kept if get(row) is not None]
        if self._by is None:
            return self._algebra.part(self._measure, present, get, self._weight)
        split: defaultdict[Any, list[Row]] = defaultdict(list)
        for row in present:
            split[self._by(row)].append(row)
        # Events without the field of `by` do not count.
        split.pop(None, None)
        return {by: self._algebra.part(self._measure, of_by, get, self._weight) for by, of_by in split.items()}

    def value(self, parts: Sequence[Part]) -> Any:
        """The value of all `parts` together; with `by`, the values by the texts of the field."""
        if self._by is None:
            return self._value(parts)
        split: defaultdict[str, list[Part]] = defaultdict(list)
        for part in parts:
            for by, of_by in part.items():
                # Long decimals may have the text of their neighbours.
                split[self._text(by)].append(of_by)
        return {by: self._value(of_by) for by, of_by in split.items()}

    def _value(self, parts: Sequence[Part]) -> Any:
        whole = parts[0] if len(parts) == 1 else self._algebra.merge(self._measure, parts)
        return self._algebra.value(self._measure, whole)
