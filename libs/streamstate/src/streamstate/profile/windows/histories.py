"""Measures over trailing windows of a key, from the events that a history keeps as lines of JSON by day."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from cachetools import LRUCache

from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import TIMESTAMP
from streamstate.profile.measure import Measure, TrailingWindow
from streamstate.profile.numbers import other_name
from streamstate.profile.windows.busy import BusyHistory, Parts, rows
from streamstate.profile.windows.parts import ALGEBRAS, Part, Row
from streamstate.state.operations import DAY_MS

BUSY = 8_192
"""A history with at least so many characters within the longest window is kept in a cache."""

_CACHED = 8 * 2**20
"""The size of the cache of a profile in a process, in characters of lines; parts take up to ten times this memory."""


_time = itemgetter(0)


class TrailingWindows:
    """The measures of `declared` that have windows."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._measures = {each.name: WindowMeasure(each, declared) for each in declared.resolved if each.windows}
        self._busy: LRUCache[Any, BusyHistory] = LRUCache(_CACHED, len)

    def values(
        self, key: Any, days: Mapping[int, str], spans: Mapping[str, tuple[int, int]]
    ) -> dict[str, dict[str, Any]]:
        """The value of each measure by window.

        days: the lines of `key` by day. spans: the first and last moment of each window.
        """
        first, last = (moment // DAY_MS for moment in spans[self._declared.windows[0].label])
        within = {day: days[day] for day in sorted(days) if first <= day <= last}
        busy = self._history(key, within) if sum(map(len, within.values())) >= BUSY else None
        quiet = [] if busy else [row for day, lines in within.items() for row in rows(day, lines)]
        found: dict[str, dict[str, Any]] = {name: {} for name in self._measures}
        for window in self._declared.windows:
            start, end = spans[window.label]
            if busy:
                edges, whole = busy.within(window.label, start, end, partial(self._parts, window))
            else:
                # Each window is within the longer windows.
                quiet = [row for row in quiet if start <= row[0] <= end]
                edges, whole = quiet, None
            for name, part in self._parts(window, edges).items():
                values = self._measures[name].values([part, whole[name]] if whole else [part])
                for named, value in values.items():
                    found.setdefault(named, {})[window.label] = value
        return found

    def _parts(self, window: TrailingWindow, of_window: Sequence[Row]) -> Parts:
        measures = self._measures.items()
        return {name: measure.part(of_window) for name, measure in measures if window in measure.windows}

    def _history(self, key: Any, days: Mapping[int, str]) -> BusyHistory:
        """The history of a key, from the cache if `days` continue the history there."""
        history = self._busy.pop(key, None)
        if history is None or not history.continued(days):
            history = BusyHistory(days)
        if len(history) <= _CACHED:
            self._busy[key] = history
        return history


class WindowMeasure:
    """One measure of `declared`; with `by`, a part is the first timestamp and the part by value."""

    def __init__(self, measure: Measure, declared: Declaration) -> None:
        columns = {TIMESTAMP: 0} | {field: 1 + index for index, field in enumerate(declared.windowed_fields)}

        def get(field: str) -> Callable[[Row], Any]:
            return itemgetter(columns[field])

        self.windows = measure.windows
        self.measure = measure
        self._algebra = ALGEBRAS[measure.kind]
        self._kept = measure.where.compiled(get)
        self.get = get(measure.field or TIMESTAMP)
        self._by = get(measure.by) if measure.by else None
        self._text = declared.types[measure.by].text if measure.by else str
        self._weight = get(measure.weight) if measure.weight else None

    def counted(self, rows: Iterable[Row]) -> list[Row]:
        """The events that the measure counts: of its `where`, and with its field, which `get` gets."""
        get, kept = self.get, rows if self._kept is None else filter(self._kept, rows)
        return [row for row in kept if get(row) is not None]

    def part(self, rows: Iterable[Row]) -> Part:
        get, present = self.get, self.counted(rows)
        if self._by is None:
            return self._algebra.part(self.measure, present, get, self._weight)
        split: defaultdict[Any, list[Row]] = defaultdict(list)
        for row in present:
            split[self._by(row)].append(row)
        # Events without the field of `by` do not count.
        split.pop(None, None)
        return {
            by: (min(map(_time, of_by)), self._algebra.part(self.measure, of_by, get, self._weight))
            for by, of_by in split.items()
        }

    def value(self, parts: Sequence[Part]) -> Any:
        """The value of all `parts` together, without `by`."""
        return self._algebra.value(self.measure, parts)

    def values(self, parts: Sequence[Part]) -> dict[str, Any]:
        """The value of all `parts` together by name; with `by` the values by the texts of the field, and of the others.

        The first texts by the time of their first event have values of their own.
        """
        name = self.measure.name
        if self._by is None:
            return {name: self.value(parts)}
        split: defaultdict[str, list[tuple[int, Part]]] = defaultdict(list)
        for part in parts:
            for by, of_by in part.items():
                # Long decimals may have the text of their neighbours.
                split[self._text(by)].append(of_by)
        texts = sorted(split, key=lambda text: (min(map(_time, split[text])), text))
        kept, further = texts[: self.measure.values], texts[self.measure.values :]
        found: dict[str, Any] = {name: {text: self._value_of(split[text]) for text in kept}}
        if further:
            found[other_name(name)] = self._value_of(of for text in further for of in split[text])
        return found

    def _value_of(self, parts: Iterable[tuple[int, Part]]) -> Any:
        return self._algebra.value(self.measure, [part for _, part in parts])
