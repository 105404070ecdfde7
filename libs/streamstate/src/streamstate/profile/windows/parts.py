"""The parts of a measure: each is of some events, and several parts give the value of all their events."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
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

    part: of rows, given the getters of the measured field and of a top's weights. value: of parts with different
        timestamps together, as in the state.
    """

    part: Callable[[Measure, Sequence[Row], Get, Get | None], Part]
    value: Callable[[Measure, Sequence[Part]], Any]


class Scores(Counter[Any]):
    """The scores of the values of a top."""

    @cached_property
    def order(self) -> list[Any]:
        """The values by rank, for a part that many answers use."""
        return sorted(self, key=lambda value: (-self[value], value))


def _scores(_measure: Measure, rows: Sequence[Row], get: Get, weight: Get | None) -> Scores:
    if weight is None:
        return Scores(map(get, rows))
    totals = Scores()
    for row in rows:
        if (number := weight(row)) is not None:
            totals[get(row)] += number
    return totals


def _top(measure: Measure, parts: Sequence[Scores]) -> list[tuple[Any, int]]:
    """The best of all parts: the values of the smaller parts, and the best others of the greatest part."""
    greatest, *others = sorted(parts, key=len, reverse=True)
    if not others:
        return _best(measure, greatest.items())
    changed: Counter[Any] = Counter()
    for part in others:
        changed.update(part)
    for value in changed:
        changed[value] += greatest[value]
    kept = islice((value for value in greatest.order if value not in changed), measure.n)
    return _best(measure, chain(changed.items(), ((value, greatest[value]) for value in kept)))


def _best(measure: Measure, scores: Iterable[tuple[Any, int]]) -> list[tuple[Any, int]]:
    return sorted(scores, key=lambda item: (-item[1], item[0]))[: measure.n]


def _distinct(_measure: Measure, parts: Sequence[set[Any]]) -> int:
    greatest, *others = sorted(parts, key=len, reverse=True)
    return len(greatest) + len(set().union(*others) - greatest)


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


def _bound(pick: Callable[[Iterable[Any]], Any]) -> Algebra:
    """The least or the greatest; a part is a list of no or one number."""
    return Algebra(
        lambda _, rows, get, _weight: [pick(map(get, rows))] if rows else [],
        lambda _, parts: pick(chain(*parts)) if any(parts) else None,
    )


def _mean(_measure: Measure, parts: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    total, number = map(sum, zip(*parts, strict=True))
    return (total, number) if number else None


def _first(_measure: Measure, parts: Sequence[list[tuple[int, Any]]]) -> Any:
    return min(chain(*parts), key=_time)[1] if any(parts) else None


def _last(_measure: Measure, parts: Sequence[list[tuple[int, Any]]]) -> Any:
    return max(chain(*parts), key=_time)[1] if any(parts) else None


def _recent(measure: Measure, parts: Sequence[list[tuple[int, Any]]]) -> list[tuple[Any, int]]:
    listed = sorted(chain(*parts), key=_time, reverse=True) if len(parts) > 1 else parts[0]
    return [(value, time) for time, value in listed[: measure.n]]


ALGEBRAS: Mapping[Kind, Algebra] = {
    "count": Algebra(lambda _, rows, _get, _weight: len(rows), lambda _, parts: sum(parts)),
    "total": Algebra(lambda _, rows, get, _weight: sum(map(get, rows)), lambda _, parts: sum(parts)),
    "mean": Algebra(lambda _, rows, get, _weight: (sum(map(get, rows)), len(rows)), _mean),
    "least": _bound(min),
    "most": _bound(max),
    "first": Algebra(_oldest, _first),
    "last": Algebra(_newest, _last),
    "recent": Algebra(_newest, _recent),
    "top": Algebra(_scores, _top),
    "distinct": Algebra(lambda _, rows, get, _weight: set(map(get, rows)), _distinct),
    "sessions": Algebra(
        lambda measure, rows, get, _weight: _sessions(measure, ((time, time) for time in sorted(map(get, rows)))),
        lambda measure, parts: len(_sessions(measure, heapq.merge(*parts))),
    ),
}
