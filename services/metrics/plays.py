"""All plays by day and by hour, over all users, with the median of an hour over the days for comparison."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamstate.app import LATE, Count, FoldContext, Record
from streamstate.operators.pages import MOST_TIME, Time
from streamstate.state.operations import Delete, Fields, Merge, Operation, Read
from streamstate.view import EXPLORE, View

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
PERIOD_MS = 32 * DAY_MS
"""Hours of the current and the previous period are kept: two state keys alternate, so a period expires as a whole."""

ALL = "plays"
_MIDNIGHT = 1_767_225_600_000
"""Of the first of January 2026."""


class HourOfPlays(msgspec.Struct):
    """The plays from `start` (milliseconds since 1970) on, and the median of the same hour over all days."""

    start: int
    count: int
    usual: float


class DayOfPlays(msgspec.Struct):
    """The plays of a day (UTC) that begins at `start` (milliseconds since 1970)."""

    start: int
    count: int


class Plays(msgspec.Struct):
    """The count of all plays, and the last weeks by Kafka timestamp: each day and hour from the first to the last."""

    count: int
    days: list[DayOfPlays]
    hours: list[HourOfPlays]


class Span(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The parameters of a request. Times are milliseconds since 1970, or ISO 8601."""

    from_: Annotated[Time, Meta(description="the first time, inclusive, in milliseconds since 1970 or ISO 8601")] = 0
    to: Annotated[Time, Meta(description="the end of the times, exclusive, likewise")] = MOST_TIME

    def holds(self, start: int) -> bool:
        return self.from_ <= start < self.to


def tally(records: Sequence[Record[Any, Any]], context: FoldContext) -> Iterable[Operation | Count]:
    """Two operations, and two more at the start of a period or for the previous period. Older records are late."""
    yield Merge(ALL, add={"count": len(records)})
    current = _period(records[-1].stream_time)
    for period in range(max(_period(context.time) + 1, current - 1), current + 1):
        yield Delete(_key(period))
    hours = Counter([record.timestamp // HOUR_MS for record in records])
    for period in (current - 1, current):
        if of_period := {str(hour): number for hour, number in hours.items() if _period(hour * HOUR_MS) == period}:
            yield Merge(_key(period), add=of_period)
    # A late record belongs to neither period.
    if _period(min(hours) * HOUR_MS) < current - 1 and (late := sum(map(_is_late, records))):
        yield Count(LATE, late)


def _is_late(record: Record[Any, Any]) -> bool:
    return _period(record.timestamp) < _period(record.stream_time) - 1


def _period(time: int) -> int:
    return time // PERIOD_MS


def reads(_span: Span) -> Sequence[Read]:
    return [Fields(ALL), Fields(_key(0)), Fields(_key(1))]


def plays(partitions: Sequence[Sequence[Any]], span: Span) -> Plays:
    """The plays of all partitions."""
    count = 0
    kept: Counter[int] = Counter()
    for of_all, *periods in partitions:
        count += of_all.get("count", 0)
        for period in periods:
            kept.update({int(hour): number for hour, number in period.items()})
    hours = range(min(kept), max(kept) + 1) if kept else range(0)
    of_day: defaultdict[int, list[int]] = defaultdict(list)
    days: Counter[int] = Counter()
    for hour in hours:
        of_day[hour % 24].append(kept[hour])
        days[hour // 24] += kept[hour]
    usual = {hour: median(counts) for hour, counts in of_day.items()}
    listed = [HourOfPlays(hour * HOUR_MS, kept[hour], usual[hour % 24]) for hour in hours]
    return Plays(
        count,
        [DayOfPlays(day * DAY_MS, number) for day, number in days.items() if span.holds(day * DAY_MS)],
        [hour for hour in listed if span.holds(hour.start)],
    )


def _key(period: int) -> str:
    return f"{ALL}:{period % 2}"


VIEW: View[Any] = View(
    name="plays",
    path="/v1/plays",
    summary="All plays, by day and by hour",
    topic=None,
    key=None,
    reads=reads,
    answer=plays,
    example=Plays(3, [DayOfPlays(_MIDNIGHT, 3)], [HourOfPlays(_MIDNIGHT, 3, 3.0)]),
    query=Span,
    scope=EXPLORE,
)
