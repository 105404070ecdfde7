"""The contract of a use case: name, topics, decode, fold, views."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import msgspec

from streamstate.errors import Misconfigured
from streamstate.keys import TEXT, KeyCodec
from streamstate.marker import Marker
from streamstate.state.operations import Operation, Read
from streamstate.user_state import UserState
from streamstate.view import View

K = TypeVar("K")
V = TypeVar("V")


class Record(msgspec.Struct, Generic[K, V], gc=False):
    """A decoded Kafka record: `topic` as the service calls it, `timestamp` Kafka's own, in milliseconds.

    `stream_time` is the greatest timestamp of a decoded record of its topic's partition so far, itself included.
    `marker` is that of a record of a derived topic, where the source is `marked`. `erased`: whether its user, the key,
    was erased after it.
    """

    topic: str
    key: K
    value: V
    offset: int
    timestamp: int
    stream_time: int
    marker: Marker | None = None
    erased: bool = False


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

Form = Literal["json", "text"]
"""How the values of a topic are written for the service: JSON, or plain text (numbers in digits)."""

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


def no_effects(_records: Sequence[Any], _context: FoldContext) -> Iterable[Effect]:
    """The effects of a fold that has none of a kind."""
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
    form: what `decode` gets: JSON, or plain text. Where a deployment's topic has another format, it is made of that.
    """

    topic: str
    key: KeyCodec[K]
    decode: Callable[[K, bytes | None], V]
    table: bool = False
    requires_beginning: bool = True
    marked: bool = False
    own_name: str = ""
    form: Form = "json"

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
    settings: the values, by name, of settings that do the same, such as the size of windows. `grace_ms` is the grace of
        the windows: unless a deployment says otherwise, a timestamp further ahead of the clock is refused.
    users: what the state keeps of a user, where keys are users. Records of users who were erased after them do not come
        to `apply`, `lookups` and `reads`.
    shared: as `apply`, for what names no user. It gets the records of erased users too, which go on counting there.

    The state keeps version and settings, and a state of other ones is not continued.
    """

    sources: tuple[Source[Any, Any], ...]
    apply: Callable[[Sequence[Record[Any, Any]], FoldContext], Iterable[Effect]]
    lookups: Callable[[Sequence[Record[Any, Any]]], Lookups] = lambda _records: {}
    reads: Callable[[Sequence[Record[Any, Any]]], Iterable[Read]] = no_reads
    version: int = 1
    settings: Mapping[str, Setting] = field(default_factory=dict)
    users: UserState[Any] | None = None
    shared: Callable[[Sequence[Record[Any, Any]], FoldContext], Iterable[Effect]] = no_effects

    @property
    def declaration(self) -> str:
        """Version and settings as a state keeps them."""
        declared = {"version": self.version, "settings": self.settings}
        return msgspec.json.encode(declared, order="deterministic").decode()

    @property
    def grace_ms(self) -> int | None:
        """The grace of the windows in milliseconds, None without windows."""
        grace = self.settings.get("grace_ms")
        return None if grace is None else int(grace)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources)

    @cached_property
    def deployed(self) -> Mapping[str, str]:
        """The topics by what the service calls them."""
        return {source.own_name: source.topic for source in self.sources}


Recode = Callable[[bytes, bytes | None], tuple[bytes, bytes | None]]
"""Key and value of a derived record in one format → in another."""


def as_written(key: bytes, value: bytes | None) -> tuple[bytes, bytes | None]:
    """What a topic has whose format is that of the service."""
    return key, value


@dataclass(frozen=True)
class Derived:
    """What the records of a derived topic are: a key of `key`; a value of the type `value`.

    It is written as JSON, strings and numbers as plain text; `encode` makes another format of it, `decode` reads that.
    """

    key: KeyCodec[Any]
    value: type
    encode: Recode = as_written
    decode: Recode = as_written


@dataclass(frozen=True)
class Totals:
    """A topic of totals, for numbers that only rise: the fields of the state key `key`, summed over all partitions.

    A record's key is the field, its value the total in digits. The last record of a field has its exact total: let the
    topic be compacted. No total is published by a state that is behind the one that was published last.
    """

    topic: str
    key: str
    derived: Derived = Derived(TEXT, int)


@dataclass(frozen=True)
class App:
    """A use case. `name` is its folder, Redis prefix and metric label.

    Partition p of the app is partition p of each of its topics; topics may differ in their number of partitions, those
    of one fold may not. A topic belongs to one fold.

    emits: the topics of the records that folds emit, and what these are.
    any_instance: whether each instance of the API answers for any key; the APIs are then scaled apart from the streams.
    service: the name of its folder, also where it is deployed under another `name`.
    group: the consumer group, and the first part of what else the app is called at Kafka; `name` when empty.
    written: other names, in this deployment, of topics that the app writes.
    """

    name: str
    folds: tuple[Fold, ...]
    views: tuple[View[Any], ...] = ()
    totals: tuple[Totals, ...] = ()
    emits: Mapping[str, Derived] = field(default_factory=dict)
    any_instance: bool = False
    service: str = ""
    group: str = ""
    written: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "service", self.service or self.name)
        object.__setattr__(self, "group", self.group or self.name)

    @cached_property
    def sources(self) -> tuple[Source[Any, Any], ...]:
        return tuple(source for fold in self.folds for source in fold.sources)

    @cached_property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources)

    @cached_property
    def user_folds(self) -> tuple[tuple[Fold, UserState[Any]], ...]:
        """The folds that keep something of users, with what that is."""
        return tuple((fold, fold.users) for fold in self.folds if fold.users)

    @cached_property
    def user_sources(self) -> tuple[Source[Any, Any], ...]:
        """The topics whose keys are users of whom something is kept."""
        return tuple(source for fold, _ in self.user_folds for source in fold.sources)

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

    @property
    def outputs(self) -> tuple[str, ...]:
        """The topics that the app writes: derived records, totals and dead letters."""
        return (*map(self.output, self.emits), *(totals.topic for totals in self.totals), self.dead_letters)

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
