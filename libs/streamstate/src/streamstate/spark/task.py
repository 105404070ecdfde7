"""What a Spark task does with its rows: partition by partition, fold and commit."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from streamstate.app import App
from streamstate.kafka import dead_letters, derived, original_headers, producer, send_all
from streamstate.processing import RawRecord, after, fold, sift
from streamstate.redis_store import RedisStore, connect
from streamstate.state import Claim, Commit
from streamstate.tables import look_up

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
            for topic, partition, raw in _slices(batch):
                advance(topic, partition, raw)
        return iter(())


class _Advance:
    """Brings partitions forward by commits, remembering where each stands for as long as the task lasts."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store = _store(job.redis, job.redis_timeout_s, job.app.name)
        self._positions: dict[tuple[str, int], int | None] = {}

    def __call__(self, topic: str, partition: int, raw: list[RawRecord]) -> None:
        job, at = self._job, (topic, partition)
        expected = self._position(topic, partition)
        fresh = list(after(raw, expected or 0))
        if not fresh:
            return
        source = job.app.source(topic)
        sifted = sift(source, fresh, partition, job.counts[topic])
        found = look_up(job.app, self._store, job.counts, source.lookups(sifted.records))
        operations, emits = fold(source, sifted.records, found)
        if emits:
            send_all(_producer(job.kafka), derived(emits, at))
        if sifted.dead:
            headers = original_headers(job.kafka, at, [letter.offset for letter in sifted.dead])
            send_all(_producer(job.kafka), dead_letters(job.app, sifted.dead, at, headers))
        reached = fresh[-1][0] + 1
        self._store.commit(Commit(job.claims[partition], topic, expected, reached, operations, sifted.counters))
        self._positions[at] = reached

    def _position(self, topic: str, partition: int) -> int | None:
        at = (topic, partition)
        if at not in self._positions:
            stored = self._store.read({partition: []})[partition].positions
            self._positions[at] = stored.get(topic)
        return self._positions[at]


def _slices(batch: pa.RecordBatch) -> Iterator[tuple[str, int, list[RawRecord]]]:
    """The runs of rows of one topic and partition: rows come partition by partition, in offset order."""
    topics = batch["topic"].dictionary_encode()
    codes, partitions = topics.indices.to_numpy(), batch["partition"].to_numpy()
    cuts = np.flatnonzero((np.diff(codes) != 0) | (np.diff(partitions) != 0)) + 1
    columns = [batch[name].to_numpy(zero_copy_only=False) for name in ("offset", "timestamp", "key", "value")]
    for start, end in zip([0, *cuts], [*cuts, len(codes)], strict=True):
        if start < end:
            raw = zip(*(column[start:end].tolist() for column in columns), strict=True)
            yield topics.dictionary[int(codes[start])].as_py(), int(partitions[start]), list(raw)
