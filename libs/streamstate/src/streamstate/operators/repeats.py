"""A derived topic as an input: records that were sent again are folded once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamstate.app import Count, Effect, Fold, FoldContext, Record
from streamstate.marker import Marker
from streamstate.state.operations import Put, Read, Value

REPEATS = "repeats"
"""The name of the count of records that were left out, and of the state keys that tell repeats."""

_Place = tuple[int, int]
"""Offset and number of a marker: within a partition of its topic they rise, apart from repeats."""

_BEFORE: _Place = (-1, -1)


def without_repeats(fold: Fold) -> Fold:
    """`fold` over derived topics (`Emit`, at least once), each record of which it then takes exactly once.

    For each topic, and each partition that the records' causes are in, the state keeps the marker of the last record.
    A record whose marker is not greater is a repeat. A record without a marker is folded as it is.
    """

    def reads(records: Sequence[Record[Any, Any]]) -> Iterable[Read]:
        yield from {Value(_key(record, record.marker)) for record in records if record.marker}
        yield from fold.reads(records)

    def apply(records: Sequence[Record[Any, Any]], context: FoldContext) -> Iterable[Effect]:
        last: dict[str, _Place] = {}
        first_time = [record for record in records if _is_new(record, last, context.values)]
        if first_time:
            yield from fold.apply(first_time, context)
        for key, (offset, number) in last.items():
            yield Put(key, f"{offset}:{number}")
        if repeats := len(records) - len(first_time):
            yield Count(REPEATS, repeats)

    return replace(
        fold, sources=tuple(replace(source, marked=True) for source in fold.sources), apply=apply, reads=reads
    )


def _is_new(record: Record[Any, Any], last: dict[str, _Place], values: Mapping[Read, Any]) -> bool:
    """Whether `record` is no repeat; `last` gets its place then."""
    if record.marker is None:
        return True
    key, place = _key(record, record.marker), record.marker[2:]
    if place <= (last.get(key) or _place(values[Value(key)])):
        return False
    last[key] = place
    return True


def _key(record: Record[Any, Any], marker: Marker) -> str:
    return f"{REPEATS}:{record.topic}:{marker.topic_id}:{marker.partition}"


def _place(text: str | None) -> _Place:
    if text is None:
        return _BEFORE
    offset, number = text.split(":")
    return int(offset), int(number)
