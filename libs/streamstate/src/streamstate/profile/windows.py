"""A measure of the events in a window: the rows of a history."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import TIMESTAMP
from streamstate.profile.measure import Measure

Row = list[Any]
"""An event: its timestamp in milliseconds, and the values of the declaration's `windowed_fields`."""

_time = itemgetter(0)


class WindowMeasure:
    """One measure of `declared`, over rows in the order of their offsets within equal timestamps."""

    def __init__(self, measure: Measure, declared: Declaration) -> None:
        columns = {TIMESTAMP: 0} | {field: 1 + index for index, field in enumerate(declared.windowed_fields)}

        def get(field: str) -> Callable[[Row], Any]:
            return itemgetter(columns[field])

        self._measure = measure
        self._kept = measure.where.compiled(get)
        self._get = get(measure.field or TIMESTAMP)
        self._by = get(measure.by) if measure.by else None
        self._text = declared.types[measure.by].text if measure.by else str
        self._weight = get(measure.weight) if measure.weight else None

    def value(self, rows: Iterable[Row]) -> Any:
        """The value, or the values by the text of the field `by`."""
        get, kept = self._get, rows if self._kept is None else filter(self._kept, rows)
        present = [row for row in kept if get(row) is not None]
        if self._by is None:
            return self._value(present)
        split: defaultdict[Any, list[Row]] = defaultdict(list)
        for row in present:
            split[self._by(row)].append(row)
        return {self._text(by): self._value(part) for by, part in split.items() if by is not None}

    def _value(self, rows: Sequence[Row]) -> Any:
        kind, get = self._measure.kind, self._get
        if kind == "count":
            return len(rows)
        if kind == "top":
            return self._top(rows)
        if kind == "recent":
            newest = sorted(rows, key=_time)[: -self._measure.n - 1 : -1]
            return [(get(row), row[0]) for row in newest]
        if kind == "sessions":
            times = sorted(map(_time, rows))
            return bool(times) + sum(later - time > self._measure.gap_ms for time, later in pairwise(times))
        if kind == "first":
            return get(min(rows, key=_time)) if rows else None
        if kind == "last":
            return get(max(reversed(rows), key=_time)) if rows else None
        return _SUMMARIES[kind]([get(row) for row in rows])

    def _top(self, rows: Iterable[Row]) -> list[tuple[Any, int]]:
        get, weight = self._get, self._weight
        counts: Counter[Any] = Counter()
        if weight is None:
            counts.update(map(get, rows))
        else:
            for row in rows:
                if (number := weight(row)) is not None:
                    counts[get(row)] += number
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: self._measure.n]


_SUMMARIES: dict[str, Callable[[list[Any]], Any]] = {
    "total": sum,
    "least": lambda values: min(values, default=None),
    "most": lambda values: max(values, default=None),
    "mean": lambda values: (sum(values), len(values)) if values else None,
    "distinct": lambda values: len(set(values)),
}
