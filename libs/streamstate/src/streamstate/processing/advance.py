"""From the raw records of partitions to their commits: the one way, whoever brings the records.

Decisions are pure. The store is read for what folds ask of it, and written once all that was made is published.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamstate.app import App, Count, Emit, Fold, FoldContext, Lookups, Record, Rows
from streamstate.operators.tables import look_up
from streamstate.processing.decode import DeadLetter, Decoded, RawRecord, decode_records
from streamstate.processing.requested import requested
from streamstate.state.operations import Operation
from streamstate.state.reads import Read
from streamstate.state.store import Claim, Commit, Store, TopicPartition


@dataclass(frozen=True, slots=True)
class Part:
    """What a batch holds for one fold in one partition, and what the fold asks for."""

    fold: Fold
    partition: int
    decoded: Sequence[Decoded]
    records: Sequence[Record[Any, Any]]
    lookups: Mapping[str, set[Any]]
    reads: Sequence[Read]


@dataclass(frozen=True, slots=True)
class Folded:
    """What a part makes: the commit, and what is published before it. `dead` are letters by topic."""

    partition: int
    commit: Commit
    emits: Sequence[Emit]
    dead: Mapping[str, Sequence[DeadLetter]]


Publish = Callable[[Sequence[Folded]], None]
"""Returns when all that was folded is published for good; what is published and not committed then comes again."""


class Advance:
    """Brings partitions forward by commits, remembering where each stands.

    claims: what may be written. counts: partition counts by topic.

    Round trips are what a small micro-batch waits for: there is one for each kind of call and batch of rows, not for
    each partition.
    """

    def __init__(
        self, app: App, store: Store, claims: Mapping[int, Claim], counts: Mapping[str, int], publish: Publish
    ) -> None:
        self._app = app
        self._store = store
        self._claims = claims
        self._counts = counts
        self._publish = publish
        self._reached: dict[TopicPartition, tuple[int | None, int]] = {}

    def fold(self, rows: Mapping[TopicPartition, Sequence[RawRecord]]) -> Sequence[Folded]:
        """What `rows` make of the state; nothing is published or written yet."""
        self._learn({partition for _, partition in rows})
        parts = [part for fold in self._app.folds for part in self._parts(fold, rows)]
        table_rows = look_up(self._app, self._store, self._counts, _lookups(parts))
        values = self._values(parts)
        return [self._fold(part, table_rows, values.get(part.partition, {})) for part in parts]

    def commit(self, folded: Sequence[Folded]) -> None:
        """Publish, then commit. Raises `Fenced` when a partition is claimed by another by now."""
        self._publish(folded)
        self._store.commit(*(each.commit for each in folded))
        for each in folded:
            self._reached |= {(step.topic, each.partition): (step.next, step.time) for step in each.commit.steps}

    def times(self, partitions: Iterable[int]) -> Mapping[TopicPartition, int]:
        """The stream times (milliseconds) of all topics in `partitions`."""
        self._learn(set(partitions))
        return {place: time for place, (_, time) in self._reached.items()}

    def _learn(self, partitions: set[int]) -> None:
        """Where the state stands, for partitions that are seen for the first time."""
        new = partitions - {partition for _, partition in self._reached}
        if new:
            snapshots = self._store.read({partition: [] for partition in new})
            self._reached |= {(topic, p): snapshots[p].at(topic) for p in new for topic in self._app.topics}

    def _parts(self, fold: Fold, rows: Mapping[TopicPartition, Sequence[RawRecord]]) -> Iterator[Part]:
        for partition in sorted({partition for topic, partition in rows if topic in fold.topics}):
            decoded = [
                decode_records(source, rows[place], self._reached[place], partition, self._counts[source.topic])
                for source in fold.sources
                if (place := (source.topic, partition)) in rows
            ]
            records = merge(decoded)
            lookups = {table: set(keys) for table, keys in fold.lookups(records).items()}
            yield Part(fold, partition, decoded, records, lookups, list(fold.reads(records)))

    def _values(self, parts: Sequence[Part]) -> Mapping[int, Mapping[Read, Any]]:
        """The answers to the reads of all folds, by partition."""
        reads: defaultdict[int, list[Read]] = defaultdict(list)
        for part in parts:
            if part.reads:
                reads[part.partition] += part.reads
        snapshots = self._store.read(reads) if reads else {}
        return {p: dict(zip(reads[p], snapshot.values, strict=True)) for p, snapshot in snapshots.items()}

    def _fold(self, part: Part, rows: Rows, values: Mapping[Read, Any]) -> Folded:
        time = max(self._reached[topic, part.partition][1] for topic in part.fold.topics)
        operations: list[Operation] = []
        emits: list[Emit] = []
        counters: Counter[str] = Counter()
        for decoded in part.decoded:
            counters.update(decoded.counters)
        context = FoldContext(*requested(part.fold, part.lookups, rows, part.reads, values), time)
        for effect in part.fold.apply(part.records, context):
            if isinstance(effect, Emit):
                emits.append(effect)
            elif isinstance(effect, Count):
                counters[effect.what] += effect.by
            else:
                operations.append(effect)
        steps = [decoded.step for decoded in part.decoded]
        dead = {decoded.step.topic: decoded.dead for decoded in part.decoded if decoded.dead}
        commit = Commit(self._claims[part.partition], steps, operations, +counters)
        return Folded(part.partition, commit, emits, dead)


def merge(decoded: Sequence[Decoded]) -> Sequence[Record[Any, Any]]:
    """The records of all in one order: by stream time, at a tie in the order given; offsets stay in order."""
    if len(decoded) == 1:
        return decoded[0].records
    return list(heapq.merge(*(topic.records for topic in decoded), key=lambda record: record.stream_time))


def _lookups(parts: Iterable[Part]) -> Lookups:
    """The lookups of all folds in all partitions."""
    keys: defaultdict[str, set[Any]] = defaultdict(set)
    for part in parts:
        for table, of_part in part.lookups.items():
            keys[table] |= of_part
    return keys
