"""What a Spark task does with its rows: partition by partition, fold and commit."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import pyarrow as pa

from streamstate import bootstrap
from streamstate.app import App
from streamstate.kafka.dead_letters import dead_letters, derived, original_headers, shortened
from streamstate.kafka.producer import Outgoing, producer, send_all
from streamstate.kafka.security import OPEN, Security
from streamstate.processing.advance import Advance, Folded
from streamstate.spark.rows import by_partition, in_order, whole
from streamstate.state.operations import changes
from streamstate.state.store import Claim

MOST_CHANGES = 5_000
"""The most changes of one commit: Redis answers nobody else meanwhile, for some 20 ms."""

_store = lru_cache(bootstrap.store)
_producer = lru_cache(producer)


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
        store = _store(self.redis, self.redis_timeout_s, self.app.name)
        advance = Advance(self.app, store, self.claims, self.counts, self._publish)
        for batch in self._ordered(batches, advance) if self.app.one_task else batches:
            commit(advance, batch)
        return iter(())

    def _ordered(self, batches: Iterable[pa.RecordBatch], advance: Advance) -> Iterator[pa.RecordBatch]:
        """The rows of the whole micro-batch: first the tables, then by stream time."""
        for batch in whole(batches):
            times = advance.times({int(partition) for partition in batch["partition"].to_numpy()})
            rows = in_order(batch, self.app.topics, self.app.tables, times)
            for start in range(0, len(rows), self.commit_records):
                yield rows.slice(start, self.commit_records)

    def _publish(self, folded: Sequence[Folded]) -> None:
        outgoing = [record for one in folded for record in self._outgoing(one)]
        if outgoing:
            send_all(_producer(self.kafka, self.security), outgoing, instead=partial(shortened, self.app))

    def _outgoing(self, folded: Folded) -> Iterator[Outgoing]:
        yield from derived(folded.emits, folded.partition)
        for topic, dead in folded.dead.items():
            place = (topic, folded.partition)
            headers = original_headers(self.kafka, place, [letter.offset for letter in dead], self.security)
            yield from dead_letters(self.app, dead, place, headers)


def commit(advance: Advance, rows: pa.RecordBatch) -> None:
    """Fold and commit `rows`, in halves while a commit would make too many changes."""
    folded = advance.fold(by_partition(rows))
    most = max((sum(map(changes, one.commit.operations)) for one in folded), default=0)
    if most <= MOST_CHANGES or len(rows) == 1:
        advance.commit(folded)
        return
    half = len(rows) // 2
    commit(advance, rows.slice(0, half))
    commit(advance, rows.slice(half))
