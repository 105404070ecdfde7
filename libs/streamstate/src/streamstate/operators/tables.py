"""A topic as a table, looked up or joined: the last value of each key, a null value (tombstone) deletes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from streamstate.app import (
    NO_SETTINGS,
    App,
    Effect,
    Fold,
    FoldContext,
    Form,
    Lookups,
    Record,
    Rows,
    Setting,
    Source,
    no_effects,
)
from streamstate.keys import KeyCodec, partition_of
from streamstate.state.operations import Delete, Operation, Put, Read, Value
from streamstate.state.store import Store
from streamstate.view import UserState

K = TypeVar("K")


def row(table: str, key: Any) -> str:
    """The state key of one row."""
    return f"{table}:{key}"


def changelog(
    topic: str, key: KeyCodec[K], decode: Callable[[K, bytes], str], *, table: bool = False, form: Form = "json"
) -> Source[K, Any]:
    """A source of the texts that `decode` takes from the values of `topic`; a null value stays None.

    A `table` does not require the beginning of its topic, which compaction or retention deletes.
    """

    def decode_or_tombstone(key: K, value: bytes | None) -> str | None:
        return None if value is None else decode(key, value)

    return Source(topic, key, decode_or_tombstone, table=table, requires_beginning=not table, form=form)


def changes(records: Iterable[Record[Any, str | None]]) -> Iterable[Operation]:
    """The operations that update the rows by the records of their changelog."""
    last = {(record.topic, record.key): record.value for record in records}
    for place, value in last.items():
        yield Delete(row(*place)) if value is None else Put(row(*place), value)


def table(topic: str, key: KeyCodec[K], decode: Callable[[K, bytes], str]) -> Fold:
    """The fold that keeps `topic` as a table of the texts that `decode` takes from its values."""

    def apply(records: Sequence[Record[K, str | None]], _context: FoldContext) -> Iterable[Operation]:
        return changes(records)

    return Fold((changelog(topic, key, decode, table=True),), apply)


def look_up(app: App, store: Store, counts: Mapping[str, int], lookups: Lookups) -> Rows:
    """The rows of the keys `lookups`, of all tables and partitions, in one round trip.

    `counts` are the partition counts by topic; the store is the app's own.
    """
    places: dict[int, list[tuple[str, Any]]] = {}
    for name, keys in lookups.items():
        source = app.source(name)
        for key in keys:
            partition = partition_of(source.key.encode(key), counts[source.topic])
            places.setdefault(partition, []).append((name, key))
    rows: dict[str, dict[Any, str | None]] = {name: {} for name in lookups}
    if places:
        reads = {p: [Value(row(name, key)) for name, key in asked] for p, asked in places.items()}
        for partition, snapshot in store.read(reads).items():
            for (name, key), value in zip(places[partition], snapshot.values, strict=True):
                rows[name][key] = value
    return rows


class Joined(msgspec.Struct, Generic[K], frozen=True, gc=False):
    """A record, and the table's row of its key after all records before it (None: a missing row).

    A record of the table itself has the row that it sets.
    """

    record: Record[K, Any]
    row: str | None


def left_join(
    table: Source[K, str | None],
    stream: Source[K, Any],
    apply: Callable[[Sequence[Joined[K]], FoldContext], Iterable[Effect]] = no_effects,
    reads: Callable[[Sequence[Record[K, Any]]], Iterable[Read]] = lambda _records: (),
    version: int = 1,
    settings: Mapping[str, Setting] = NO_SETTINGS,
    users: UserState[K] | None = None,
    shared: Callable[[Sequence[Joined[K]], FoldContext], Iterable[Effect]] = no_effects,
) -> Fold:
    """A fold over the records of both topics in the order of their stream time, the table first on a tie.

    table: a `changelog`; the fold keeps its rows.
    apply: as of a `Fold`, with the row of each record's key. reads: as of a `Fold`; the rows need none.
    version, settings, users: as of a `Fold`. shared: too, with the row; a record of an erased user has none.

    A row applies to the following records of `stream`. If a table's record reaches Kafka late, after a micro-batch with
    stream records of greater timestamps, its row applies from its arrival on: Kafka Streams' `max.task.idle.ms` is 0
    here. A build from nothing, with both topics complete, always gives the same state.
    """

    def reads_with_rows(records: Sequence[Record[K, Any]]) -> Iterable[Read]:
        keys = {record.key for record in records if record.topic == stream.topic}
        yield from (Value(row(table.topic, key)) for key in keys)
        yield from reads(records)

    def apply_joined(records: Sequence[Record[K, Any]], context: FoldContext) -> Iterable[Effect]:
        yield from changes(record for record in records if record.topic == table.topic)
        yield from apply(_joined(table.topic, records, context), context)

    def share_joined(records: Sequence[Record[K, Any]], context: FoldContext) -> Iterable[Effect]:
        return shared(_joined(table.topic, records, context), context) if shared is not no_effects else ()

    return Fold(
        (table, stream),
        apply_joined,
        reads=reads_with_rows,
        version=version,
        settings=settings,
        users=users,
        shared=share_joined,
    )


def _joined(table: str, records: Sequence[Record[K, Any]], context: FoldContext) -> list[Joined[K]]:
    rows: dict[K, str | None] = {}
    joined = []
    for record in records:
        if record.key is None:
            joined.append(Joined(record, None))
            continue
        if record.topic == table:
            rows[record.key] = record.value
        elif record.key not in rows:
            rows[record.key] = context.values[Value(row(table, record.key))]
        joined.append(Joined(record, rows[record.key]))
    return joined
