"""The contract of a use case: name, topics, decode, fold, views."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from streamstate.errors import BadRecord, Misconfigured
from streamstate.gateway import READ, NamedIds, Part, Scope
from streamstate.keys import KeyCodec, partition_of
from streamstate.marker import Marker
from streamstate.state.operations import Operation, Read

K = TypeVar("K")
V = TypeVar("V")


class Record(msgspec.Struct, Generic[K, V], gc=False):
    """A decoded Kafka record: `topic` as the service calls it, `timestamp` Kafka's own, in milliseconds.

    `stream_time` is the greatest timestamp of a decoded record of its topic's partition so far, itself included.
    `marker` is that of a record of a derived topic, where the source is `marked`.
    """

    topic: str
    key: K
    value: V
    offset: int
    timestamp: int
    stream_time: int
    marker: Marker | None = None


class Emit(msgspec.Struct, frozen=True):
    """A record for a derived topic (as the service calls it), produced before the commit of its `cause`: at least once.

    It carries the header `streamstate.source` (topic id, partition, offset and number of this one among those of its
    cause), by which a reader drops repeats (`operators.repeats`): a fold yields the records of a topic in the order of
    their causes.
    """

    topic: str
    key: bytes
    value: bytes
    cause: Record[Any, Any]


class Count(msgspec.Struct, frozen=True):
    """Add `by` to the partition's own count `what`, which `/metrics` shows; as exact as the state."""

    what: str
    by: int = 1


Effect = Operation | Emit | Count

Setting = str | int | bool
NO_SETTINGS: Mapping[str, Setting] = {}

Lookups = Mapping[str, Iterable[Any]]
"""Keys to look up, by table (the name of a topic that the app keeps as a table)."""

Rows = Mapping[str, Mapping[Any, str | None]]
"""Rows by table and key, None for a key that the table does not have."""


@dataclass(frozen=True)
class FoldContext:
    """What a fold gets besides the records. Looking at what it did not ask for raises `NotRequested`.

    rows: the answers to the fold's `lookups`, wherever the rows' partitions are.
    values: the answers to its `reads`, from the state of the records' own partition before the records.
    time: the greatest Kafka timestamp (milliseconds) of the fold's topics in the partition before the records, from 0.
    """

    rows: Rows = field(default_factory=dict)
    values: Mapping[Read, Any] = field(default_factory=dict)
    time: int = 0


def no_reads(_records: Sequence[Any]) -> Iterable[Read]:
    """The reads of a fold that needs none."""
    return ()


@dataclass(frozen=True)
class Source(Generic[K, V]):
    """One topic of an app, and how its records are read.

    decode: (key, value bytes or None) → event. Called once a record. Raises `BadRecord` or `msgspec.ValidationError`
        for a record that cannot be used; whatever it raises, that record goes to the dead-letter topic.
    table: whether folds look rows of this one up. When a state is built from nothing, tables are completed first, so
        that what comes later finds them.
    requires_beginning: whether a state built from nothing is wrong when Kafka no longer has the topic's first records.
        False for what the state keeps for a limited time only, and for tables, whose topics forget old records.
    marked: whether records get the marker that their header has; `operators.repeats.without_repeats` sets it.
    own_name: what the service calls the topic, where a deployment reads another one instead.
    """

    topic: str
    key: KeyCodec[K]
    decode: Callable[[K, bytes | None], V]
    table: bool = False
    requires_beginning: bool = True
    marked: bool = False
    own_name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_name", self.own_name or self.topic)


@dataclass(frozen=True)
class Fold:
    """What becomes of the records of one topic, or of several that are merged.

    sources: several must be co-partitioned. Their records are merged by stream time, at a tie in the order of the
        sources (a table before the stream that it is joined to), within what a micro-batch holds. A backlog goes in
        slices that end in all of them at the same stream time, so that a build from nothing is deterministic.
    apply: (records of one partition in order, `FoldContext`) → operations, counts, and records to emit. Pure, must not
        block; any cutting of the same records into batches must give the same state. When it raises, the records are
        tried in halves, and the one for which it raises alone goes to the dead-letter topic.
    lookups: records → the rows of tables that `apply` looks at in `FoldContext.rows`.
    reads: records → the parts of the partition's own state that `apply` looks at in `FoldContext.values`.
    version: raise it in a release that makes another state of the same records.
    settings: the values, by name, of settings that do the same, such as the size of windows.

    The state keeps version and settings, and a state of other ones is not continued.
    """

    sources: tuple[Source[Any, Any], ...]
    apply: Callable[[Sequence[Record[Any, Any]], FoldContext], Iterable[Effect]]
    lookups: Callable[[Sequence[Record[Any, Any]]], Lookups] = lambda _records: {}
    reads: Callable[[Sequence[Record[Any, Any]]], Iterable[Read]] = no_reads
    version: int = 1
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def declaration(self) -> str:
        """Version and settings as a state keeps them."""
        declared = {"version": self.version, "settings": self.settings}
        return msgspec.json.encode(declared, order="deterministic").decode()

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources)

    @cached_property
    def deployed(self) -> Mapping[str, str]:
        """The topics by what the service calls them."""
        return {source.own_name: source.topic for source in self.sources}


@dataclass(frozen=True)
class View(Generic[K]):
    """One question, answered at `path` and, for many keys at once, at `/v1/many`.

    About one key, which is in the path as `<key>`: `topic` is the source whose partitioning tells where it lives;
    `reads` gets the key, `answer` the key and the values that were read, in the order of `reads`.
    About all partitions together, those of `topic`, or of all topics when it is None: `answer` gets such values of
    every partition instead. It is about everything when `key` is None; without a topic it may be about a key.

    query: the parameters of the request, all with defaults; `reads` and `answer` get them as a further argument.
    answers: the type that `answer` gives, or None for what is unknown.
    names, part: what the gateway adds to the answer, and adds the answer to.
    scope: what a caller of the gateway must be allowed.
    """

    name: str
    path: str
    summary: str
    topic: str | None
    key: KeyCodec[K] | None
    reads: Callable[..., Sequence[Read]]
    answer: Callable[..., msgspec.Struct | None]
    answers: type[msgspec.Struct]
    query: type[msgspec.Struct] | None = None
    names: NamedIds | UnsetType = UNSET
    part: Part | UnsetType = UNSET
    scope: Scope = READ

    @property
    def over_all_partitions(self) -> bool:
        """Whether it is about all partitions together."""
        return self.topic is None or self.key is None

    def ask(self, text: str, query: msgspec.Struct | None = None) -> "Question":
        """The view for the key that `text` names, by default with the defaults of its parameters.

        Raises `BadKey` when it names none.
        """
        key = () if self.key is None else (self.key.parse(text),)
        given = () if self.query is None else (query or self.query(),)
        return Question(self, key, given)


@dataclass(frozen=True)
class Question:
    """A view with the key and the parameters (each a tuple of one or none) that are asked for."""

    view: View[Any]
    key: tuple[Any, ...]
    query: tuple[msgspec.Struct, ...]

    @property
    def reads(self) -> Sequence[Read]:
        return self.view.reads(*self.key, *self.query)

    def answer(self, values: Sequence[Any]) -> msgspec.Struct | None:
        """What `view.answer` makes of `values`."""
        return self.view.answer(*self.key, values, *self.query)

    def partitions(self, counts: Mapping[str, int]) -> Iterable[int]:
        """Where the answer is, given the partition counts by topic."""
        if self.view.topic is None:
            return range(max(counts.values()))
        if self.view.key is None:
            return range(counts[self.view.topic])
        return (partition_of(self.view.key.encode(*self.key), counts[self.view.topic]),)


@dataclass(frozen=True)
class Totals:
    """A topic of totals, for numbers that only rise: the fields of the state key `key`, summed over all partitions.

    A record's key is the field, its value the total in digits. The last record of a field has its exact total: let the
    topic be compacted. No total is published by a state that is behind the one that was published last.
    """

    topic: str
    key: str


@dataclass(frozen=True)
class App:
    """A use case. `name` is its folder, Redis prefix and metric label.

    Partition p of the app is partition p of each of its topics; topics may differ in their number of partitions, those
    of one fold may not. A topic belongs to one fold.

    emits: the topics of the records that folds emit.
    any_instance: whether each instance of the API answers for any key; the APIs are then scaled apart from the streams.
    group: the consumer group, and the first part of what else the app is called at Kafka; `name` when empty.
    written: other names, in this deployment, of topics that the app writes.
    """

    name: str
    folds: tuple[Fold, ...]
    views: tuple[View[Any], ...] = ()
    totals: tuple[Totals, ...] = ()
    emits: tuple[str, ...] = ()
    any_instance: bool = False
    group: str = ""
    written: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.group or self.name)

    @cached_property
    def sources(self) -> tuple[Source[Any, Any], ...]:
        return tuple(source for fold in self.folds for source in fold.sources)

    @cached_property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The topics that folds look up."""
        return tuple(source.topic for source in self.sources if source.table)

    @cached_property
    def declarations(self) -> Mapping[str, str]:
        """Version and settings of the fold of each topic."""
        return {topic: fold.declaration for fold in self.folds for topic in fold.topics}

    @cached_property
    def requiring_beginning(self) -> frozenset[str]:
        """The topics that a state built from nothing needs from their first records on."""
        return frozenset(source.topic for source in self.sources if source.requires_beginning)

    @cached_property
    def merges(self) -> bool:
        """Whether a fold reads several topics."""
        return any(len(fold.sources) > 1 for fold in self.folds)

    @cached_property
    def marked(self) -> frozenset[str]:
        """The topics whose records have markers."""
        return frozenset(source.topic for source in self.sources if source.marked)

    @property
    def one_task(self) -> bool:
        """Whether one task must have all rows of a micro-batch: folds look tables up, or merge topics."""
        return bool(self.tables) or self.merges

    @property
    def dead_letters(self) -> str:
        """The topic that gets the records which the app cannot use."""
        return self.output(dead_letter_topic(self.name))

    @cached_property
    def _sources(self) -> Mapping[str, Source[Any, Any]]:
        return {source.own_name: source for source in self.sources}

    def source(self, topic: str) -> Source[Any, Any]:
        """The source that the service calls `topic`; raises KeyError for a topic that the app does not read."""
        return self._sources[topic]

    def output(self, topic: str) -> str:
        """What a topic that the app writes is called in this deployment."""
        return self.written.get(topic, topic)

    def require_copartitioned(self, counts: Mapping[str, int]) -> None:
        """Raise `Misconfigured` where topics that a fold merges differ in their number of partitions, by topic."""
        for fold in self.folds:
            partitions = {topic: counts[topic] for topic in fold.topics}
            if len(set(partitions.values())) > 1:
                parts = " and ".join(f"{topic} has {count}" for topic, count in partitions.items())
                msg = f"{self.name} merges topics that are not co-partitioned: {parts} partitions; make them equal"
                raise Misconfigured(msg)

    def topics_of(self, view: View[Any]) -> tuple[str, ...]:
        """The topics that the answers of `view` come from: those of the fold that reads its own, all if it has none."""
        return self._fold_topics.get(view.topic, self.topics)

    @cached_property
    def _fold_topics(self) -> Mapping[str | None, tuple[str, ...]]:
        """By each topic, those of its fold."""
        return {topic: fold.topics for fold in self.folds for topic in fold.topics}

    def view(self, name: str) -> View[Any]:
        """The view called `name`; raises KeyError where there is none."""
        return {view.name: view for view in self.views}[name]


def dead_letter_topic(app: str) -> str:
    """The topic that gets the records which the app of this name cannot use."""
    return f"{app}-dlq"


def json_decoder(kind: type[V]) -> Callable[[bytes | None], V]:
    """A strict decoder of JSON values: exactly the types of `kind`, further members ignored, null refused."""
    decode = msgspec.json.Decoder(kind).decode

    def strict(value: bytes | None) -> V:
        if value is None:
            msg = "the value is null"
            raise BadRecord(msg)
        return decode(value)

    return strict
