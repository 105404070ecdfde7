"""The contract of a use case: name, topics, decode, fold, views."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import msgspec

from streamstate.keys import MURMUR2, TEXT, KeyCodec, Marker, partition_of
from streamstate.state.operations import Operation, Read
from streamstate.view import UserState, View

K = TypeVar("K")
V = TypeVar("V")


class Record(msgspec.Struct, Generic[K, V], gc=False):
    """A decoded Kafka record: `topic` as the service calls it, `timestamp` from Kafka, in milliseconds.

    stream_time: the greatest timestamp of a folded record in the topic's partition up to and including this record.
    marker: the marker of a record of a derived topic, if the source is `marked`.
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

    The header `streamstate.source` holds topic id, partition, offset, and the index among the records of its cause.
    A reader drops repeats by the header (`operators.repeats`), so a fold yields the records of a topic in the order of
    their causes.
    """

    topic: str
    key: bytes
    value: bytes
    cause: Record[Any, Any]


LATE = "late_records"
"""The counter of records too late for their window: after its end and grace, or of an expired day."""

NULLS = "null_values"
"""The counter of records without a value, such as Debezium's tombstones, which are no events of a profile."""


class Count(msgspec.Struct, frozen=True):
    """Add `by` to the partition's counter `what`, shown in `/metrics` and as exact as the state."""

    what: str
    by: int = 1


Effect = Operation | Emit | Count

Form = Literal["json", "text"]
"""How the values of a topic are written for the service: JSON, or plain text (numbers in digits)."""

Setting = str | int | bool

Lookups = Mapping[str, Iterable[Any]]
"""Keys to look up, by table (the name of a topic kept as a table)."""

Rows = Mapping[str, Mapping[Any, str | None]]
"""Rows by table and key; None for a missing row."""


@dataclass(frozen=True)
class FoldContext:
    """Input of a fold besides the records. Access to undeclared rows or values raises `NotRequested`.

    rows: the result of the fold's `lookups`, from any partition.
    values: the result of its `reads`, from the state of the records' own partition before the records.
    time: the greatest Kafka timestamp (milliseconds) of the fold's topics in the partition before the records, from 0.
    """

    rows: Rows = field(default_factory=dict)
    values: Mapping[Read, Any] = field(default_factory=dict)
    time: int = 0


def no_effects(_records: Sequence[Any], _context: FoldContext) -> Iterable[Effect]:
    return ()


@dataclass(frozen=True)
class Source(Generic[K, V]):
    """One topic of an app, and the decoding of its records.

    decode: (key, value bytes or None) → event. Called once a record. Raises `BadRecord` or `msgspec.ValidationError`
        for an unusable record; a record for which it raises any exception goes to the dead-letter topic.
    table: whether folds look rows of the topic up: a build from nothing completes tables first.
    requires_beginning: whether a build needs the topic's first records; not for time-limited state, nor for tables.
    last_values: whether the state depends on the last record of each key alone, as for a table: Kafka may compact the
        topic.
    marked: whether records get the marker of their header; set by `operators.repeats.without_repeats`. header_ids:
        whether schema ids are in headers. own_name: the service's name of the topic, if a deployment reads another.
    form: the input of `decode`, JSON or plain text: a topic of another format is converted.
    times: (event, Kafka's timestamp) → None: bounds the event's own times; a `formats.event_times.EventTimes`.
    partitioner: how the topic's producers place keys, one of `keys.PARTITIONERS`.
    """

    topic: str
    key: KeyCodec[K]
    decode: Callable[[K, bytes | None], V]
    table: bool = False
    requires_beginning: bool = True
    marked: bool = False
    own_name: str = ""
    form: Form = "json"
    times: Callable[[V, int], None] | None = None
    header_ids: bool = False
    last_values: bool = False
    partitioner: str = MURMUR2

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_name", self.own_name or self.topic)

    @property
    def compactable(self) -> bool:
        """Whether the last record of each key is enough."""
        return self.table or self.last_values

    def partition(self, key: K, partitions: int) -> int:
        """The partition of `key` in the topic, which has so many `partitions`."""
        return partition_of(self.key.encode(key), partitions, self.partitioner)


@dataclass(frozen=True)
class Fold:
    """The processing of one topic, or of several merged topics.

    sources: several sources must be co-partitioned. Their records are merged by stream time within a micro-batch; on a
        tie in the order of the sources (a table before the stream joined to it). A backlog is read in slices that end
        at the same stream time in all sources, so that a build from nothing is deterministic.
    apply: (records of one partition in order, `FoldContext`) → operations, counts, and records to emit. Pure, must not
        block; any division of the same records into batches must give the same state. When it raises, the batch is
        bisected, and a single record for which it raises goes to the dead-letter topic.
    lookups: records → the table rows that `apply` reads from `FoldContext.rows`.
    reads: records → the parts of the partition's own state that `apply` reads from `FoldContext.values`.
    version: raise it in a release that makes another state of the same records.
    settings: values, by name, of settings that change the state, such as the size of windows. `grace_ms` is the grace
        of the windows: unless a deployment says otherwise, a timestamp further ahead of the clock is refused.
    users: the personal data in the state, where keys are users. `apply`, `lookups` and `reads` do not get records older
        than the erasure of their user.
    shared: as `apply`, for state that names no user. It also gets the records of erased users, with None as the key.
    keys: the names of the state keys, up to the first colon, where a fold declares them: no two folds share one.
    entries: of a fold that appends an entry for several records, so that batches divide the records into entries: an
        entry's text → its records, in order. Raises ValueError.
    once: the fold that `operators.repeats` wraps, None for another fold.
    rekeys: of a fold that sends records again by the user in the value, the codec of users: `apply` does not get the
        records of erased users. The events of its source have the user as `key`, encoded.

    The state stores version and settings; a state of another version or settings is not continued.
    """

    sources: tuple[Source[Any, Any], ...]
    apply: Callable[[Sequence[Record[Any, Any]], FoldContext], Iterable[Effect]]
    lookups: Callable[[Sequence[Record[Any, Any]]], Lookups] = lambda _records: {}
    reads: Callable[[Sequence[Record[Any, Any]]], Iterable[Read]] = lambda _records: ()
    version: int = 1
    settings: Mapping[str, Setting] = field(default_factory=dict)
    users: UserState[Any] | None = None
    shared: Callable[[Sequence[Record[Any, Any]], FoldContext], Iterable[Effect]] = no_effects
    keys: tuple[str, ...] = ()
    entries: Callable[[bytes], Sequence[Any]] | None = None
    once: "Fold | None" = None
    rekeys: KeyCodec[Any] | None = None

    @cached_property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources)


Recode = Callable[[bytes, bytes | None], tuple[bytes, bytes | None]]
"""Key and value of a derived record in one format → in another."""


def as_written(key: bytes, value: bytes | None) -> tuple[bytes, bytes | None]:
    """The identity: the topic has the service's format."""
    return key, value


@dataclass(frozen=True)
class Derived:
    """Key codec and value type of the records of a derived topic.

    Values are JSON, or plain text for strings and numbers; `encode` converts to the topic's format, `decode` back.
    dated: whether a record has the Kafka timestamp of its cause.
    """

    key: KeyCodec[Any]
    value: type
    encode: Recode = as_written
    decode: Recode = as_written
    dated: bool = False


@dataclass(frozen=True)
class Totals:
    """A topic of totals, for numbers that only rise: the fields of the state key `key`, summed over all partitions.

    A record's key is the field, its value the total in digits. The last record of a field has its exact total: let the
    topic be compacted. A state behind the last published state publishes no total.
    """

    topic: str
    key: str
    derived: Derived = Derived(TEXT, int)


@dataclass(frozen=True)
class App:
    """A use case. `name` is its folder, Redis prefix and metric label.

    Partition p of the app is partition p of each of its topics. The topics of one fold have equal partition counts;
    other topics may differ. A topic belongs to one fold.

    emits: key and value types of the derived topics, by topic.
    any_instance: whether each instance of the API answers for any key; the APIs are then scaled apart from the streams.
    service: the name of its folder, also where it is deployed under another `name`.
    release_of: the name of the first of its releases, with which it shares outputs; `name` when empty.
    group: the consumer group, and the prefix of the app's other names at Kafka; `name` when empty.
    written: the deployment's names of written topics, by the service's names.
    variables: settings, without prefix, that declare the app wherever the environment of its process does not.
    """

    name: str
    folds: tuple[Fold, ...]
    views: tuple[View[Any], ...] = ()
    totals: tuple[Totals, ...] = ()
    emits: Mapping[str, Derived] = field(default_factory=dict)
    any_instance: bool = False
    service: str = ""
    release_of: str = ""
    group: str = ""
    written: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("service", "release_of", "group"):
            object.__setattr__(self, name, getattr(self, name) or self.name)
        partitioners = {source.topic: source.partitioner for source in self.sources}
        placed = ((view, partitioners.get(view.topic or "", MURMUR2)) for view in self.views)
        views = tuple(view if view.partitioner == by else replace(view, partitioner=by) for view, by in placed)
        object.__setattr__(self, "views", views)
        keys = Counter(key for fold in self.folds for key in fold.keys)
        if shared := [key for key, folds in keys.items() if folds > 1]:
            named = " and ".join(shared)
            raise ValueError(f"{self.name}: two folds keep {named}; give each state of a fold members of other names")

    @cached_property
    def sources(self) -> tuple[Source[Any, Any], ...]:
        return tuple(source for fold in self.folds for source in fold.sources)

    @cached_property
    def topics(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources)

    @cached_property
    def user_folds(self) -> tuple[tuple[Fold, UserState[Any]], ...]:
        """The folds that keep personal data, each with its `UserState`."""
        return tuple((fold, fold.users) for fold in self.folds if fold.users)

    @cached_property
    def user_sources(self) -> tuple[Source[Any, Any], ...]:
        """The topics keyed by user of the folds that keep personal data."""
        return tuple(source for fold, _ in self.user_folds for source in fold.sources)

    @cached_property
    def rekeyed(self) -> Mapping[str, KeyCodec[Any]]:
        """The topics with users in the values, which a fold sends again by user, and the codec of users."""
        return {source.topic: fold.rekeys for fold in self.folds if fold.rekeys for source in fold.sources}

    @cached_property
    def tables(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.sources if source.table)

    @cached_property
    def declarations(self) -> Mapping[str, str]:
        """Version and settings of the fold of each topic, as stored in the state."""
        encode = msgspec.json.Encoder(order="deterministic").encode
        # A looked-up row of a table is found by the partitioner.
        tables = {f"partitioner:{of.topic}": of.partitioner for of in self.sources if of.table}
        looked_up = {name: partitioner for name, partitioner in tables.items() if partitioner != MURMUR2}
        folds = [
            (fold.topics, {"version": fold.version, "settings": {**fold.settings, **looked_up}}) for fold in self.folds
        ]
        return {topic: encode(declared).decode() for topics, declared in folds for topic in topics}

    @cached_property
    def requiring_beginning(self) -> frozenset[str]:
        """The topics that a build from nothing needs from their first records on."""
        return frozenset(source.topic for source in self.sources if source.requires_beginning)

    @cached_property
    def own(self) -> frozenset[str]:
        """The derived topics that the app itself reads: in the service's format."""
        return frozenset(self.emits) & {source.own_name for source in self.sources}

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
        """Whether one task needs all rows of a micro-batch: folds look tables up, or merge topics."""
        return bool(self.tables) or self.merges

    @property
    def dead_letters(self) -> str:
        return self.output(dead_letter_topic(self.name))

    def source(self, topic: str) -> Source[Any, Any]:
        """The source that the service calls `topic`; raises KeyError for an unknown topic."""
        return {source.own_name: source for source in self.sources}[topic]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The written topics: derived records, totals and dead letters."""
        return (*map(self.output, self.emits), *(totals.topic for totals in self.totals), self.dead_letters)

    def output(self, topic: str) -> str:
        """The name, in this deployment, of a written topic."""
        return self.written.get(topic, topic)

    def topics_of(self, view: View[Any]) -> tuple[str, ...]:
        """The topics behind the answers of `view`: the topics of the fold of its topic; without a topic, all."""
        return next((fold.topics for fold in self.folds if view.topic in fold.topics), self.topics)


def dead_letter_topic(app: str) -> str:
    return f"{app}-dlq"
