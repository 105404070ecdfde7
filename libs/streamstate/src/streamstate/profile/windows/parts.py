"""The parts of a measure: each is of some events, and two parts merge into the part of all their events."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from streamstate.profile.measure import Kind, Measure

Row = list[Any]
"""An event: its timestamp in milliseconds, and the values of the declaration's `windowed_fields`."""

Get = Callable[[Row], Any]
Part = Any
_time = itemgetter(0)


class Algebra(NamedTuple):
    """How a kind of measure is made of parts. Rows are in the order of their offsets within equal timestamps.

    part: of rows, given the getters of the measured field and of a top's weights. merge: of parts with different
        timestamps. value: of a part, as in the state.
    """

    part: Callable[[Measure, Sequence[Row], Get, Get | None], Part]
    merge: Callable[[Measure, Sequence[Part]], Part]
    value: Callable[[Measure, Part], Any] = lambda _measure, part: part


def _counts(_measure: Measure, rows: Sequence[Row], get: Get, weight: Get | None) -> Counter[Any]:
    if weight is None:
        return Counter(map(get, rows))
    totals: Counter[Any] = Counter()
    for row in rows:
        if (number := weight(row)) is not None:
            totals[get(row)] += number
    return totals


def _summed(_measure: Measure, parts: Sequence[Counter[Any]]) -> Counter[Any]:
    totals: Counter[Any] = Counter()
    for part in parts:
        totals.update(part)
    return totals


def _top(measure: Measure, counts: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: measure.n]


def _sessions(measure: Measure, periods: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Periods in the order of their starts, joined where the pause between two is not longer than the gap."""
    joined: list[tuple[int, int]] = []
    for start, end in periods:
        if joined and start - joined[-1][1] <= measure.gap_ms:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _oldest(_measure: Measure, rows: Sequence[Row], get: Get, _weight: Get | None) -> list[tuple[int, Any]]:
    return [(row[0], get(row)) for row in (min(rows, key=_time),)] if rows else []


def _newest(measure: Measure, rows: Sequence[Row], get: Get, _weight: Get | None) -> list[tuple[int, Any]]:
    return [(row[0], get(row)) for row in sorted(rows, key=_time)[: -(measure.n or 1) - 1 : -1]]


def _single(_measure: Measure, entries: Sequence[tuple[int, Any]]) -> Any:
    return entries[0][1] if entries else None


def _bound(pick: Callable[[Iterable[Any]], Any]) -> Algebra:
    """The least or the greatest; a part is a list of no or one number."""
    return Algebra(
        lambda _, rows, get, _weight: [pick(map(get, rows))] if rows else [],
        lambda _, parts: [pick(chain(*parts))] if any(parts) else [],
        lambda _, part: part[0] if part else None,
    )


ALGEBRAS: Mapping[Kind, Algebra] = {
    "count": Algebra(lambda _, rows, _get, _weight: len(rows), lambda _, parts: sum(parts)),
    "total": Algebra(lambda _, rows, get, _weight: sum(map(get, rows)), lambda _, parts: sum(parts)),
    "mean": Algebra(
        lambda _, rows, get, _weight: (sum(map(get, rows)), len(rows)),
        lambda _, parts: tuple(map(sum, zip(*parts, strict=True))),
        lambda _, part: part if part[1] else None,
    ),
    "least": _bound(min),
    "most": _bound(max),
    "first": Algebra(_oldest, lambda _, parts: sorted(chain(*parts), key=_time)[:1], _single),
    "last": Algebra(_newest, lambda _, parts: sorted(chain(*parts), key=_time)[-1:], _single),
    "recent": Algebra(
        _newest,
        lambda measure, parts: sorted(chain(*parts), key=_time, reverse=True)[: measure.n],
        lambda _, part: [(value, time) for time, value in part],
    ),
    "top": Algebra(_counts, _summed, _top),
    "distinct": Algebra(
        lambda _, rows, get, _weight: set(map(get, rows)),
        lambda _, parts: set().union(*parts),
        lambda _, part: len(part),
    ),
    "sessions": Algebra(
        lambda measure, rows, get, _weight: _sessions(measure, ((time, time) for time in sorted(map(get, rows)))),
        lambda measure, parts: _sessions(measure, heapq.merge(*parts)),
        lambda _, part: len(part),
    ),
}
