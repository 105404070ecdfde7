"""The work of a Spark task: its rows, partition by partition, folded and committed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from streamstate import bootstrap
from streamstate.app import App
from streamstate.erasure.applying import Erased, personal
from streamstate.kafka.outbox import KafkaOutbox
from streamstate.kafka.producer import Outputs
from streamstate.kafka.security import Security
from streamstate.processing.limits import CommitLimit, DeadLetterLimit, Limits, TimestampLimit
from streamstate.processing.writer import CHANGES_A_RECORD, PartitionWriter
from streamstate.settings import StreamSettings
from streamstate.spark.rows import by_partition, columns, gather, markers, whole_partitions
from streamstate.state.store import Claim, Origin

BUILDING_CHANGES, READY_CHANGES = 240_000, 1_500
"""The most changes of a commit during a build, and afterwards: Redis serves no reader for 0.5 s and 20 ms at most.

A build beside a live release commits as afterwards."""

_store = lru_cache(bootstrap.store)
_topics = lru_cache(bootstrap.topics)
_outputs = lru_cache(Outputs)


@lru_cache
def _dead_letter_limit(_app: str, most: int, share: float) -> DeadLetterLimit:
    return DeadLetterLimit(most, share)


@dataclass(frozen=True, eq=False)
class FoldTask:
    """One query's work, sent to the workers: the app, the claims of its partitions, and the deployment's settings.

    origins: of the app's topics. timestamps: the records left out of decoding. erased: the records of erased users.
        security: the stream's credentials for Kafka. query: a unique name of the query.
    """

    app: App
    claims: Mapping[int, Claim]
    origins: Mapping[str, Origin]
    timestamps: TimestampLimit
    erased: Erased
    security: Security
    settings: StreamSettings
    query: str = field(default_factory=lambda: uuid4().hex)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FoldTask) and self.query == other.query

    def __hash__(self) -> int:
        return hash(self.query)

    @property
    def counts(self) -> dict[str, int]:
        """The partition counts by topic."""
        return {topic: origin.partitions for topic, origin in self.origins.items()}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commit every row of `batches`.

        Raises `Fenced` when a partition belongs to another query by now, and `BatchTooLarge`, with nothing committed.
        """
        settings, write = self.settings, writer(self).write
        for batch in (
            gather(batches, settings.batch_records)
            if self.app.one_task
            else whole_partitions(batches, settings.commit_records)
        ):
            write(by_partition(batch), markers(batch))
        return iter(())


@lru_cache(maxsize=8)
def writer(task: FoldTask) -> PartitionWriter:
    """The writer of a query in this process, over the process's own connections."""
    app, settings = task.app, task.settings
    store = _store(settings.redis, settings.redis_timeout_s, app.name, settings.redis_login)
    topics, out = _topics(settings.kafka, task.security), _outputs(settings.kafka, task.security)
    records, pointer = settings.commit_records, bootstrap.pointer(settings, app)
    beside = pointer.publishing(app.name).beside
    building = READY_CHANGES if beside else min(int(CHANGES_A_RECORD * records), BUILDING_CHANGES)
    limits = Limits(
        CommitLimit(records, building),
        CommitLimit(records, READY_CHANGES),
        _dead_letter_limit(app.name, settings.dead_letters, settings.dead_letter_share),
        task.timestamps,
        None if settings.build_rate is None else settings.build_rate / max(task.counts.values()),
    )
    keep_seen = settings.users_expire_ms > 0
    folds = {partition: personal(app, partition, task.erased, keep_seen=keep_seen) for partition in task.claims}
    publishing = partial(pointer.may_publish, app.name)
    outbox = KafkaOutbox(app, bootstrap.history(settings, topics), out, task.origins, publishing)
    return PartitionWriter(app, store, task.claims, task.counts, outbox, limits, folds)


def in_tasks(rows: DataFrame, task: FoldTask, tasks: int) -> DataFrame:
    """`rows` of Spark's Kafka source, committed by `task` in at most `tasks` tasks: an empty result."""
    return (
        rows.selectExpr(*columns(task.app)).coalesce(1 if task.app.one_task else tasks).mapInArrow(task, "nothing long")
    )
