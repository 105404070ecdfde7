"""A topic as a table: the last value of each key, a null value (tombstone) deletes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from streamstate.app import App, Fold, FoldContext, Lookups, Record, Rows, Source
from streamstate.keys import KeyCodec, partition_of
from streamstate.state.operations import Delete, Operation, Put, Value
from streamstate.state.store import Store

K = TypeVar("K")


def row(table: str, key: Any) -> str:
    """The state key of one row."""
    return f"{table}:{key}"


def changelog(
    topic: str, key: KeyCodec[K], decode: Callable[[K, bytes], str], *, table: bool = False
) -> Source[K, Any]:
    """A source of the texts that `decode` takes from the values of `topic`; a null value stays None.

    A `table` does not require the beginning of its topic, where compaction and retention go together.
    """

    def decode_or_tombstone(key: K, value: bytes | None) -> str | None:
        return None if value is None else decode(key, value)

    return Source(topic, key, decode_or_tombstone, table=table, requires_beginning=not table)


def changes(records: Iterable[Record[Any, str | None]]) -> Iterable[Operation]:
    """The operations that bring the rows up to date with the records of their changelog."""
    last = {(record.topic, record.key): record.value for record in records}
    for place, value in last.items():
        yield Delete(row(*place)) if value is None else Put(row(*place), value)


def table(topic: str, key: KeyCodec[K], decode: Callable[[K, bytes], str]) -> Fold:
    """The fold that keeps `topic` as a table of the texts that `decode` takes from its values."""

    def apply(records: Sequence[Record[K, str | None]], _context: FoldContext) -> Iterable[Operation]:
        return changes(records)

    return Fold((changelog(topic, key, decode, table=True),), apply)


def look_up(app: App, store: Store, counts: Mapping[str, int], lookups: Lookups) -> Rows:
    """The rows of these keys, of all tables and partitions, in one round trip.

    `counts` are the partition counts by topic; the store is the app's own.
    """
    places: dict[int, list[tuple[str, Any]]] = {}
    for name, keys in lookups.items():
        codec = app.source(name).key
        for key in keys:
            places.setdefault(partition_of(codec.encode(key), counts[name]), []).append((name, key))
    rows: dict[str, dict[Any, str | None]] = {name: {} for name in lookups}
    if places:
        reads = {p: [Value(row(name, key)) for name, key in asked] for p, asked in places.items()}
        for partition, snapshot in store.read(reads).items():
            for (name, key), value in zip(places[partition], snapshot.values, strict=True):
                rows[name][key] = value
    return rows
