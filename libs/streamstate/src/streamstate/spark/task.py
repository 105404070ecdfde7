"""What a Spark task does with its rows: partition by partition, fold and commit."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from streamstate.app import App, Wanted
from streamstate.kafka import Outgoing, dead_letters, derived, original_headers, producer, send_all
from streamstate.processing import RawRecord, Sifted, after, fold, sift
from streamstate.redis_store import RedisStore, connect
from streamstate.state import Claim, Commit
from streamstate.tables import look_up

Place = tuple[str, int]
"""Topic and partition."""

COLUMNS = ("topic", "partition", "offset", "unix_millis(timestamp) AS timestamp", "key", "value")
"""What the query selects, and the columns of the batches here."""


@functools.lru_cache
def _store(url: str, timeout: float, app: str) -> RedisStore:
    return RedisStore(connect(url, timeout), app)


@functools.lru_cache
def _producer(bootstrap: str) -> Producer:
    return producer(bootstrap)


@dataclass(frozen=True)
class Job:
    """One query's work, sent to the workers: the app, what it may write (claims), and where the servers are.

    `counts` are the partition counts by topic.
    """

    app: App
    claims: dict[int, Claim]
    counts: dict[str, int]
    kafka: str
    redis: str
    redis_timeout_s: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commit every row of `batches`. Raises `Fenced` when a partition is not this query's any more."""
        advance = _Advance(self)
        for batch in batches:
            advance(list(_slices(batch)))
        return iter(())


class _Advance:
    """Brings partitions forward by commits, remembering where each stands for as long as the task lasts.

    Round trips are what a small micro-batch waits for: there is one for each kind of call and batch of rows, not for
    each partition.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store = _store(job.redis, job.redis_timeout_s, job.app.name)
        self._positions: dict[Place, int | None] = {}

    def __call__(self, slices: Sequence[tuple[Place, list[RawRecord]]]) -> None:
        job = self._job
        self._learn_positions(place for place, _ in slices)
        fresh = {place: list(after(raw, self._positions[place] or 0)) for place, raw in slices}
        sifted = {(topic, p): self._sift(topic, p, raw) for (topic, p), raw in fresh.items() if raw}
        found = look_up(job.app, self._store, job.counts, self._wanted(sifted))
        commits: list[Commit] = []
        outgoing: list[Outgoing] = []
        for place, some in sifted.items():
            topic, partition = place
            operations, emits = fold(job.app.source(topic), some.records, found)
            outgoing += derived(emits, place)
            if some.dead:
                headers = original_headers(job.kafka, place, [letter.offset for letter in some.dead])
                outgoing += dead_letters(job.app, some.dead, place, headers)
            reached = fresh[place][-1][0] + 1
            claim, expected = job.claims[partition], self._positions[place]
            commits.append(Commit(claim, topic, expected, reached, operations, some.counters))
        if outgoing:
            send_all(_producer(job.kafka), outgoing)
        self._store.commit(*commits)
        self._positions |= {(one.topic, one.claim.partition): one.next for one in commits}

    def _sift(self, topic: str, partition: int, raw: Sequence[RawRecord]) -> Sifted:
        return sift(self._job.app.source(topic), raw, partition, self._job.counts[topic])

    def _wanted(self, sifted: Mapping[Place, Sifted]) -> Wanted:
        wanted: defaultdict[str, set[Any]] = defaultdict(set)
        for (topic, _), some in sifted.items():
            for table, keys in self._job.app.source(topic).lookups(some.records).items():
                wanted[table].update(keys)
        return wanted

    def _learn_positions(self, places: Iterable[Place]) -> None:
        new = [place for place in places if place not in self._positions]
        if new:
            snapshots = self._store.read({partition: [] for _, partition in new})
            self._positions |= {(topic, p): snapshots[p].positions.get(topic) for topic, p in new}


def _slices(batch: pa.RecordBatch) -> Iterator[tuple[Place, list[RawRecord]]]:
    """The runs of rows of one topic and partition: rows come partition by partition, in offset order."""
    topics = batch["topic"].dictionary_encode()
    codes, partitions = topics.indices.to_numpy(), batch["partition"].to_numpy()
    cuts = np.flatnonzero((np.diff(codes) != 0) | (np.diff(partitions) != 0)) + 1
    columns = [batch[name].to_numpy(zero_copy_only=False) for name in ("offset", "timestamp", "key", "value")]
    for start, end in zip([0, *cuts], [*cuts, len(codes)], strict=True):
        if start < end:
            raw = zip(*(column[start:end].tolist() for column in columns), strict=True)
            yield (topics.dictionary[int(codes[start])].as_py(), int(partitions[start])), list(raw)
