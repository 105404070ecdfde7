"""A topic as a table: the last value of each key, a null value (tombstone) deletes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from streamstate.app import App, Fold, Found, Record, Rows, Source, Wanted
from streamstate.keys import KeyCodec, partition_of
from streamstate.state import Delete, Operation, Put, Store, Value

K = TypeVar("K")


def row(table: str, key: Any) -> str:
    """The state key of one row."""
    return f"{table}:{key}"


def table(topic: str, key: KeyCodec[K], decode: Callable[[K, bytes], str]) -> Fold:
    """The fold that keeps `topic` as a table of the texts that `decode` takes from its values."""

    def decode_or_tombstone(key: K, value: bytes | None) -> str | None:
        return None if value is None else decode(key, value)

    def apply(records: Sequence[Record[K, str | None]], _found: Found) -> Iterable[Operation]:
        last = {record.key: record.value for record in records}
        for key, value in last.items():
            yield Delete(row(topic, key)) if value is None else Put(row(topic, key), value)

    return Fold((Source(topic, key, decode_or_tombstone, table=True),), apply)


def look_up(app: App, store: Store, counts: Mapping[str, int], wanted: Wanted) -> Rows:
    """The rows that are there, of all tables and partitions, in one round trip.

    `counts` are the partition counts by topic; the store is the app's own.
    """
    places: dict[int, list[tuple[str, Any]]] = {}
    for name, keys in wanted.items():
        codec = app.source(name).key
        for key in keys:
            places.setdefault(partition_of(codec.encode(key), counts[name]), []).append((name, key))
    found: dict[str, dict[Any, str]] = {name: {} for name in wanted}
    if places:
        reads = {p: [Value(row(name, key)) for name, key in rows] for p, rows in places.items()}
        for partition, snapshot in store.read(reads).items():
            for (name, key), value in zip(places[partition], snapshot.values, strict=True):
                if value is not None:
                    found[name][key] = value.decode()
    return found
