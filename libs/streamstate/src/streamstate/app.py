"""The contract of a use case: name, topics, decode, fold, views."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from streamstate.errors import BadRecord
from streamstate.keys import KeyCodec
from streamstate.state import Operation, Read

K = TypeVar("K")
V = TypeVar("V")


class Record(msgspec.Struct, Generic[K, V], gc=False):
    """A decoded Kafka record: `timestamp` is Kafka's own, in milliseconds."""

    key: K
    value: V
    offset: int
    timestamp: int


class Emit(msgspec.Struct, frozen=True):
    """A record for a derived topic, produced before the commit of the record at `offset`: at least once.

    It carries the header `streamstate.source` (topic:partition:offset of its cause), by which a reader drops repeats.
    """

    topic: str
    key: bytes
    value: bytes
    offset: int


Wanted = Mapping[str, Iterable[Any]]
"""Keys to look up, by table (the name of a topic that the app keeps as a table)."""

Found = Mapping[str, Mapping[Any, str]]
"""What the look-up found, by table and key; a key that is not in the table is not in the mapping."""


def nothing(_records: Sequence[Any]) -> Wanted:
    """The look-ups of a fold that needs none."""
    return {}


@dataclass(frozen=True)
class Source(Generic[K, V]):
    """One topic of an app and what becomes of its records.

    decode: (key, value bytes or None) → event. Called once a record. Raises `BadRecord` or `msgspec.ValidationError`
        for a record that cannot be used; that one goes to the dead-letter topic.
    lookups: records → the table keys that the fold wants to know. Called before the fold, once a batch.
    fold: (records of one partition in offset order, what was found) → operations and records to emit. Pure, must not
        block; any cutting of the same records into batches must give the same state.
    table: whether other sources look rows of this one up. When a state is built from nothing, tables are completed
        first, so that what comes later finds them.
    """

    topic: str
    key: KeyCodec[K]
    decode: Callable[[K, bytes | None], V]
    fold: Callable[[Sequence[Record[K, V]], Found], Iterable[Operation | Emit]]
    lookups: Callable[[Sequence[Record[K, V]]], Wanted] = nothing
    table: bool = False


@dataclass(frozen=True)
class View(Generic[K]):
    """One question about one key, answered at `path` (with `<key>` in it) and, for many keys at once, at `/v1/many`.

    `topic` is the source whose partitioning tells where the key lives. `answer` gets the values of `reads` in their
    order and gives an `answers` object, or None for a key that is unknown.
    """

    name: str
    path: str
    summary: str
    topic: str
    key: KeyCodec[K]
    reads: Callable[[K], Sequence[Read]]
    answer: Callable[[K, Sequence[Any]], msgspec.Struct | None]
    answers: type[msgspec.Struct]


@dataclass(frozen=True)
class App:
    """A use case. `name` is its folder, group, Redis prefix and metric label.

    Partition p of the app is partition p of each of its topics; topics may differ in their number of partitions.
    """

    name: str
    sources: tuple[Source[Any, Any], ...]
    views: tuple[View[Any], ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources)

    @property
    def tables(self) -> tuple[str, ...]:
        """The topics that others look up."""
        return tuple(source.topic for source in self.sources if source.table)

    @property
    def dead_letters(self) -> str:
        """The topic that gets the records which the app cannot use."""
        return f"{self.name}-dlq"

    def source(self, topic: str) -> Source[Any, Any]:
        """The source of `topic`; raises KeyError for a topic that the app does not read."""
        return {source.topic: source for source in self.sources}[topic]

    def view(self, name: str) -> View[Any]:
        """The view called `name`; raises KeyError where there is none."""
        return {view.name: view for view in self.views}[name]


def json_decoder(kind: type[V]) -> Callable[[bytes | None], V]:
    """A strict decoder of JSON values: exactly the types of `kind`, further members ignored, null refused."""
    decode = msgspec.json.Decoder(kind).decode

    def strict(value: bytes | None) -> V:
        if value is None:
            msg = "the value is null"
            raise BadRecord(msg)
        return decode(value)

    return strict
