"""Joins of co-partitioned topics."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from streamstate.app import NO_SETTINGS, Effect, Fold, FoldContext, Record, Setting, Source, no_reads
from streamstate.operators.tables import changes, row
from streamstate.state.operations import Read, Value

K = TypeVar("K")


class Joined(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """A record, and the table's row of its key after all records before it (None: there is none).

    For a record of the table itself, the row is the one that it sets.
    """

    record: Record[K, Any]
    row: str | None


def left_join(
    table: Source[K, str | None],
    stream: Source[K, Any],
    apply: Callable[[Sequence[Joined[K]], FoldContext], Iterable[Effect]],
    reads: Callable[[Sequence[Record[K, Any]]], Iterable[Read]] = no_reads,
    version: int = 1,
    settings: Mapping[str, Setting] = NO_SETTINGS,
) -> Fold:
    """A fold over the records of both topics in the order of their stream time, the table first at a tie.

    table: a `changelog`; the fold keeps its rows.
    apply: as of a `Fold`, with the row of each record's key. reads: as of a `Fold`; the rows need none.
    version, settings: as of a `Fold`.

    A row holds for the records of `stream` that follow it. A record of the table that comes to Kafka late, when a
    micro-batch has already taken records of the stream with greater timestamps, holds from then on only: Kafka Streams'
    `max.task.idle.ms` is 0 here. A build from nothing, with both topics complete, is always the same.
    """

    def reads_with_rows(records: Sequence[Record[K, Any]]) -> Iterable[Read]:
        keys = {record.key for record in records if record.topic == stream.topic}
        yield from (Value(row(table.topic, key)) for key in keys)
        yield from reads(records)

    def apply_joined(records: Sequence[Record[K, Any]], context: FoldContext) -> Iterable[Effect]:
        yield from changes(record for record in records if record.topic == table.topic)
        yield from apply(_joined(table.topic, records, context), context)

    return Fold((table, stream), apply_joined, reads=reads_with_rows, version=version, settings=settings)


def _joined(table: str, records: Sequence[Record[K, Any]], context: FoldContext) -> list[Joined[K]]:
    rows: dict[K, str | None] = {}
    joined = []
    for record in records:
        if record.topic == table:
            rows[record.key] = record.value
        elif record.key not in rows:
            rows[record.key] = context.values[Value(row(table, record.key))]
        joined.append(Joined(record, rows[record.key]))
    return joined
