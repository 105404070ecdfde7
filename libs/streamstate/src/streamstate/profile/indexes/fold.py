"""The effects of events, expiry and deletions on indexes."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from streamstate.app import Effect, FoldContext, Record
from streamstate.profile.indexes.layout import INDEX, SHARDS, TIME, Index, shard_of
from streamstate.profile.numbers import COUNT, Get, Numbers, is_plain
from streamstate.state.operations import Delete, Fields, Merge, Operation, Read, UpdateIndex

Events = Sequence[Record[Any, Any]]


class IndexFold:
    """The changes of indexes by the events of a batch. get: a field → its getter of a record."""

    def __init__(self, indexes: Iterable[Index], get: Callable[[str], Get]) -> None:
        each = [*indexes]
        self._ever = [
            (index, COUNT if is_plain(index.measure) else index.measure.name) for index in each if not index.window
        ]
        self._windowed = [
            (index, _positive(index, get), index.measure.where.compiled(get)) for index in each if index.window
        ]

    def add(self, key: str, events: Events, numbers: Numbers, time: int, scores: defaultdict[str, Numbers]) -> None:
        """Add the events of `key` to `scores`, by state key.

        numbers: the sums of the events. time: the stream time after the batch, which expires periods.
        """
        shard = shard_of(key)
        for index, field in self._ever:
            # A key with the value 0 is in the index, too.
            scores[index.key(shard)][key] = numbers.get(field, 0)
        for index, positive, kept in self._windowed:
            for event in events if kept is None else filter(kept, events):
                period = event.timestamp // index.period_ms
                if period >= index.first_period(time) and (value := positive(event)):
                    held = scores[index.key(shard, period)]
                    held[key] = held.get(key, 0) + value


def _positive(index: Index, get: Callable[[str], Get]) -> Callable[[Any], int]:
    """The value of an event in the measure; 0 for a negative or absent value."""
    if not index.measure.field:
        return lambda _event: 1
    value = get(index.measure.field)
    if index.measure.kind == "count":
        return lambda event: value(event) is not None
    return lambda event: max(value(event) or 0, 0)


class IndexExpiry:
    """`Fold.shared` of indexes over windows: the stream time, and the deletion of periods that no window contains."""

    def __init__(self, indexes: Iterable[Index]) -> None:
        self._windowed = [index for index in indexes if index.window]

    def __call__(self, records: Events, context: FoldContext) -> Iterable[Effect]:
        if not records:
            return
        now = records[-1].stream_time
        yield Merge(INDEX, most={TIME: now})
        # The fold has not expired the periods before the records of erased users at the end.
        named = [record for record in records if record.key is not None]
        for index in self._windowed:
            end = index.first_period(now)
            periods = {*range(index.first_period(context.time), min(end, context.time // index.period_ms + 1))}
            if named and (first := index.first_period(named[-1].stream_time)) < end:
                added = {record.timestamp // index.period_ms for record in named}
                periods |= {period for period in added if first <= period < end}
            yield from (Delete(index.key(shard, period)) for period in sorted(periods) for shard in range(SHARDS))


class IndexRemoval:
    """`UserState.rewrite` of the indexes, and its `reads`."""

    def __init__(self, indexes: Sequence[Index]) -> None:
        self._indexes = indexes
        self.reads: Sequence[Read] = [Fields(INDEX)] if any(index.window for index in indexes) else []

    def __call__(self, keys: Collection[Any], values: Sequence[Any]) -> Iterable[Operation]:
        shards: defaultdict[int, list[str]] = defaultdict(list)
        for key in keys:
            shards[shard_of(str(key))].append(str(key))
        for index in self._indexes:
            periods: Iterable[int | None] = [None]
            if index.window:
                time = values[0].get(TIME, 0)
                periods = range(index.first_period(time), time // index.period_ms + 1)
            for period in periods:
                yield from (UpdateIndex(index.key(shard, period), [], within) for shard, within in shards.items())
