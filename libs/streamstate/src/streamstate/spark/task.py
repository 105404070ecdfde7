"""What a Spark task does with its rows: partition by partition, fold and commit."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from streamstate.app import App, Fold, Found, Record, Rows, Wanted
from streamstate.kafka import Outgoing, dead_letters, derived, original_headers, producer, send_all
from streamstate.processing import RawRecord, Sifted, apply, merge, sift
from streamstate.redis_store import RedisStore, connect
from streamstate.security import OPEN, Security
from streamstate.spark.rows import Place, by_place, in_order, whole
from streamstate.state import Claim, Commit, Read
from streamstate.tables import look_up


@functools.lru_cache
def _store(url: str, timeout: float, app: str) -> RedisStore:
    return RedisStore(connect(url, timeout), app)


@functools.lru_cache
def _producer(bootstrap: str, security: Security) -> Producer:
    return producer(bootstrap, security)


@dataclass(frozen=True)
class Job:
    """One query's work, sent to the workers: the app, what it may write (claims), and where the servers are.

    `counts` are the partition counts by topic, `commit_records` the most records of one commit.
    """

    app: App
    claims: dict[int, Claim]
    counts: dict[str, int]
    commit_records: int
    kafka: str
    redis: str
    redis_timeout_s: float
    security: Security = OPEN

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commit every row of `batches`. Raises `Fenced` when a partition is not this query's any more."""
        advance = _Advance(self)
        for batch in self._ordered(batches, advance.times) if self.app.one_task else batches:
            advance(by_place(batch))
        return iter(())

    def _ordered(
        self, batches: Iterable[pa.RecordBatch], times: Callable[[Iterable[int]], Mapping[Place, int]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the whole micro-batch: first the tables, then by stream time."""
        for batch in whole(batches):
            rows = in_order(
                batch, self.app.topics, self.app.tables, times({int(p) for p in batch["partition"].to_numpy()})
            )
            for start in range(0, len(rows), self.commit_records):
                yield rows.slice(start, self.commit_records)


@dataclass(frozen=True)
class _Part:
    """What a batch holds for one fold in one partition."""

    fold: Fold
    partition: int
    sifted: Sequence[Sifted]
    records: Sequence[Record[Any, Any]]


class _Advance:
    """Brings partitions forward by commits, remembering where each stands for as long as the task lasts.

    Round trips are what a small micro-batch waits for: there is one for each kind of call and batch of rows, not for
    each partition.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store = _store(job.redis, job.redis_timeout_s, job.app.name)
        self._reached: dict[Place, tuple[int | None, int]] = {}

    def __call__(self, rows: Mapping[Place, list[RawRecord]]) -> None:
        self._learn({partition for _, partition in rows})
        parts = [part for fold in self._job.app.folds for part in self._parts(fold, rows)]
        lookups = look_up(self._job.app, self._store, self._job.counts, _wanted(parts))
        values = self._values(parts)
        commits: list[Commit] = []
        outgoing: list[Outgoing] = []
        for part in parts:
            folded = apply(part.fold, part.records, part.sifted, self._found(part, lookups, values))
            outgoing += derived(folded.emits, part.partition)
            outgoing += self._dead(part)
            steps = [some.step for some in part.sifted]
            commits.append(Commit(self._job.claims[part.partition], steps, folded.operations, folded.counters))
        if outgoing:
            send_all(_producer(self._job.kafka, self._job.security), outgoing)
        self._store.commit(*commits)
        self._reached |= {(s.topic, one.claim.partition): (s.next, s.time) for one in commits for s in one.steps}

    def times(self, partitions: Iterable[int]) -> Mapping[Place, int]:
        """The stream times (milliseconds) of all topics in `partitions`."""
        self._learn(set(partitions))
        return {place: time for place, (_, time) in self._reached.items()}

    def _found(self, part: _Part, lookups: Rows, values: Mapping[int, Mapping[Read, Any]]) -> Found:
        times = [self._reached[topic, part.partition][1] for topic in part.fold.topics]
        return Found(lookups, values[part.partition], max(times))

    def _parts(self, fold: Fold, rows: Mapping[Place, list[RawRecord]]) -> Iterator[_Part]:
        for partition in sorted({partition for topic, partition in rows if topic in fold.topics}):
            sifted = [
                sift(source, rows[place], self._reached[place], partition, self._job.counts[source.topic])
                for source in fold.sources
                if (place := (source.topic, partition)) in rows
            ]
            yield _Part(fold, partition, sifted, merge(sifted))

    def _values(self, parts: Sequence[_Part]) -> Mapping[int, Mapping[Read, Any]]:
        """What the folds want to know of the partitions' own state, by partition."""
        reads: dict[int, list[Read]] = {part.partition: [] for part in parts}
        for part in parts:
            reads[part.partition] += part.fold.reads(part.records)
        if not any(reads.values()):
            return {partition: {} for partition in reads}
        found = self._store.read(reads)
        return {p: dict(zip(wanted, found[p].values, strict=True)) for p, wanted in reads.items()}

    def _dead(self, part: _Part) -> Iterator[Outgoing]:
        for some in part.sifted:
            if some.dead:
                place = (some.step.topic, part.partition)
                offsets = [letter.offset for letter in some.dead]
                headers = original_headers(self._job.kafka, place, offsets, self._job.security)
                yield from dead_letters(self._job.app, some.dead, place, headers)

    def _learn(self, partitions: set[int]) -> None:
        """Where the state stands, for partitions that this task sees for the first time."""
        new = partitions - {partition for _, partition in self._reached}
        if new:
            snapshots = self._store.read({partition: [] for partition in new})
            self._reached |= {(topic, p): snapshots[p].at(topic) for p in new for topic in self._job.app.topics}


def _wanted(parts: Iterable[_Part]) -> Wanted:
    wanted: defaultdict[str, set[Any]] = defaultdict(set)
    for part in parts:
        for table, keys in part.fold.lookups(part.records).items():
            wanted[table].update(keys)
    return wanted
