"""A topic as a table of rows for lookups: the last value of each key."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from streamstate.app import (
    App,
    Fold,
    FoldContext,
    Lookups,
    Record,
    Rows,
    Source,
)
from streamstate.keys import KeyCodec
from streamstate.state.operations import Delete, Operation, Put, Read, Value
from streamstate.state.store import Store
from streamstate.view import View

K = TypeVar("K")
Answer = Callable[[Any, str], msgspec.Struct]


def row(table: str, key: Any) -> str:
    """The state key of one row."""
    return f"{table}:{key}"


def table(topic: str, key: KeyCodec[K], decode: Callable[[K, bytes], str]) -> Fold:
    """The fold that keeps `topic` as a table of the texts that `decode` takes from its values.

    A null value deletes a row. The topic's beginning is not required: compaction or retention deletes records.
    """

    def decode_or_delete(key: K, value: bytes | None) -> str | None:
        return None if value is None else decode(key, value)

    def apply(records: Sequence[Record[K, str | None]], _context: FoldContext) -> Iterable[Operation]:
        for row_key, value in {record.key: record.value for record in records}.items():
            yield Delete(row(topic, row_key)) if value is None else Put(row(topic, row_key), value)

    return Fold((Source(topic, key, decode_or_delete, table=True, requires_beginning=False),), apply)


def row_view(topic: str, key: KeyCodec[Any], path: str, example: msgspec.Struct, answer: Answer) -> View[Any]:
    """The view of a row of the table `topic`, called as the topic. answer: a key and its text → the answer."""

    def reads(key: Any) -> Sequence[Read]:
        return [Value(row(topic, key))]

    def answer_row(key: Any, values: Sequence[Any]) -> msgspec.Struct | None:
        (text,) = values
        return None if text is None else answer(key, text)

    return View(topic, path, f"One of the {topic} by id", topic, key, reads, answer_row, example)


def look_up(app: App, store: Store, counts: Mapping[str, int], lookups: Lookups) -> Rows:
    """The rows of the keys `lookups`, of all tables and partitions, in one round trip.

    `counts` are the partition counts by topic; the store is the app's own.
    """
    places: dict[int, list[tuple[str, Any]]] = {}
    for name, keys in lookups.items():
        source = app.source(name)
        for key in keys:
            partition = source.partition(key, counts[source.topic])
            places.setdefault(partition, []).append((name, key))
    rows: dict[str, dict[Any, str | None]] = {name: {} for name in lookups}
    if places:
        reads = {p: [Value(row(name, key)) for name, key in asked] for p, asked in places.items()}
        for partition, snapshot in store.read(reads).items():
            for (name, key), value in zip(places[partition], snapshot.values, strict=True):
                rows[name][key] = value
    return rows
