"""A derived topic as an input: repeated records are folded once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamstate.app import Count, Effect, Fold, FoldContext, Record
from streamstate.keys import Marker
from streamstate.state.operations import Put, Read, Value

REPEATS = "repeats"
"""The name of the counter of dropped records, and of the state keys that identify repeats."""

_Place = tuple[int, int]
"""Offset and number of a marker: both rise within a partition of its topic, apart from repeats."""

_BEFORE: _Place = (-1, -1)


def without_repeats(fold: Fold) -> Fold:
    """`fold` over derived topics (`Emit`, at least once), with each record exactly once.

    For each topic, and each partition of the records' causes, the state keeps the marker of the last record. A record
    whose marker is not greater is a repeat. A record without a marker is folded unchanged.
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

    marked = tuple(replace(source, marked=True) for source in fold.sources)
    return replace(fold, sources=marked, apply=apply, reads=reads, once=fold)


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
