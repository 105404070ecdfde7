"""One hosted app: its query, started from the stored offsets, again and again."""

import json
import shutil
import tempfile
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog
from confluent_kafka import KafkaException
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader
from redis.exceptions import RedisError

from streamstate import bootstrap
from streamstate.app import App
from streamstate.errors import FencedInstance, Misconfigured, StreamStateError
from streamstate.kafka.consumer_group import Membership
from streamstate.kafka.totals import Publisher
from streamstate.processing.offset_gaps import passed
from streamstate.processing.topic_identity import require_same_topics
from streamstate.processing.truncation import LOST, left_out, refusal
from streamstate.settings import StreamSettings
from streamstate.spark.offsets import Offsets, as_json, next_slice, stored
from streamstate.spark.rows import COLUMNS
from streamstate.spark.status import Status
from streamstate.spark.task import Job
from streamstate.state.store import Claim, Origin, Snapshot

log = structlog.get_logger()

PAUSE_S = 1.0

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)


@dataclass(frozen=True)
class Hosted:
    """An app that this process runs as `instance`, whose API others reach at `advertise`."""

    app: App
    instance: str
    advertise: str


@dataclass
class Partitions:
    """What the group gives to this instance (`known` once it has); `changed` is set until the query follows."""

    held: frozenset[int] = frozenset()
    known: bool = False
    changed: threading.Event = field(default_factory=threading.Event)

    def update(self, held: frozenset[int]) -> None:
        self.held = held
        self.known = True
        self.changed.set()


class Stream:
    """One hosted app: a query over the partitions held, restarted when they change or when a commit was refused."""

    def __init__(
        self, hosted: Hosted, settings: StreamSettings, spark: SparkSession, stopping: threading.Event
    ) -> None:
        self.name = f"{hosted.app.name}-{hosted.instance}"
        self._hosted = hosted
        self._app = hosted.app
        self._settings = settings
        self._spark = spark
        self._stopping = stopping
        self._store = bootstrap.store(settings.redis, settings.redis_timeout_s, hosted.app.name)
        self._topics = bootstrap.topics(settings)
        self.status = Status(hosted.app.name, self._topics.ends)
        self._partitions = Partitions()
        self._log = log.bind(service=hosted.app.name, instance=hosted.instance)
        self._membership = Membership(
            settings.kafka,
            hosted.app.name,
            hosted.instance,
            settings.session_timeout_ms,
            self._partitions.update,
            settings.security,
        )

    def run(self) -> None:
        """Until the process stops. After a failure it starts again from the state."""
        joined = False
        while not self._stopping.is_set():
            self.status.turn()
            self._membership.require()
            try:
                origins = self._origins()
                counts = {topic: origin.partitions for topic, origin in origins.items()}
                self._app.require_copartitioned(counts)
                if not joined:
                    self._membership.start(max(counts, key=lambda topic: counts[topic]))
                    joined = True
                self._follow(origins, counts)
            except (Misconfigured, FencedInstance):
                raise
            except (StreamStateError, RedisError, KafkaException, StreamingQueryException) as error:
                self._log.warning("the query stopped; it starts again from the stored offsets", reason=reason(error))
                self.status.failed()
                self._stopping.wait(PAUSE_S)
        if joined:
            self._membership.stop()

    def _follow(self, origins: dict[str, Origin], counts: dict[str, int]) -> None:
        """Run one query for as long as the partitions stay the same."""
        self._partitions.changed.clear()
        # The group may know of new partitions earlier.
        held = frozenset(p for p in self._partitions.held if p < max(counts.values()))
        if not held:
            self.status.folding = self._partitions.known
            self._partitions.changed.wait(PAUSE_S)
            return
        require_same_topics(self._app.name, self._everywhere(counts), origins)
        claims = self._claim(held, counts, origins)
        building = self._incomplete_tables(counts)
        topics = building or self._app.topics
        # Whoever holds the first partition publishes for all.
        publisher = self._publisher() if self._app.totals and 0 in held else None
        offsets = stored(claims, topics, counts)
        job = self._job(claims, counts)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._app.name)
        if self._app.merges and not self._catch_up(offsets, job):
            return
        checkpoint = self._checkpoint()
        query = self._start(offsets, job, checkpoint)
        self.status.started()
        self._log.info("folding", partitions=sorted(held), topics=topics)
        try:
            while not (self._stopping.is_set() or self._partitions.changed.is_set()):
                if not self._goes_on(query, claims):
                    return
                if publisher:
                    publisher.publish(max(counts.values()))
                if (building and not self._incomplete_tables(counts)) or self._origins() != origins:
                    return
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _goes_on(self, query: StreamingQuery, claims: Mapping[int, Claim]) -> bool:
        """Look after `query` for a second; False when it ended, or is not allowed to write any more."""
        if query.awaitTermination(PAUSE_S):  # type: ignore[arg-type]  # seconds may be a fraction
            return False
        self._membership.require()
        snapshots = self._store.read({partition: [] for partition in claims})
        if any(snapshots[partition].epoch != claim.epoch for partition, claim in claims.items()):
            self._log.warning("the state was emptied, or claimed by another; it is claimed again")
            return False
        self._pass_gaps(query, claims)
        if progress := query.lastProgress:
            self.status.finished(progress.batchId)
        self._show(snapshots)
        return True

    def _incomplete_tables(self, counts: dict[str, int]) -> tuple[str, ...]:
        """The tables, when one of them is still being built in some partition, whoever owns it, or not yet claimed."""
        complete = all(one.ready(self._app.tables) for one in self._everywhere(counts))
        return () if complete else self._app.tables

    def _everywhere(self, counts: dict[str, int]) -> Collection[Snapshot]:
        """Every partition as it is, whoever owns it."""
        return self._store.read({partition: [] for partition in range(max(counts.values()))}).values()

    def _claim(self, held: frozenset[int], counts: dict[str, int], origins: Mapping[str, Origin]) -> dict[int, Claim]:
        places = [(topic, p) for topic, count in counts.items() for p in held if p < count]
        ends, begins = self._topics.ends(places), self._topics.begins(places)
        claims = {
            partition: self._store.claim(partition, self._hosted.advertise, _of(ends, partition), origins)
            for partition in sorted(held)
        }
        for partition, claim in claims.items():
            if commit := left_out(claim, _of(begins, partition)):
                if self._settings.lost_records == "stop":
                    raise refusal(commit)
                self._store.commit(commit)
                self._log.error("records were deleted unread", partition=partition, count=commit.counters[LOST])
                claims[partition] = replace(
                    claim, positions={**claim.positions, **{s.topic: s.next for s in commit.steps}}
                )
        return claims

    def _job(self, claims: dict[int, Claim], counts: dict[str, int]) -> Job:
        settings = self._settings
        return Job(
            self._app,
            claims,
            counts,
            settings.commit_records,
            settings.kafka,
            settings.redis,
            settings.redis_timeout_s,
            settings.security,
        )

    def _catch_up(self, offsets: Offsets, job: Job) -> bool:
        """Fold a backlog slice by slice, so that no micro-batch is larger than memory; False when it was interrupted.

        `offsets` is brought to where the query goes on.
        """
        while ends := next_slice(self._topics, offsets, self._settings.batch_records):
            if self._stopping.is_set() or self._partitions.changed.is_set():
                return False
            self._membership.require()
            reader = self._options(self._spark.read.format("kafka"), offsets)
            rows = reader.option("endingOffsets", as_json(ends)).load()
            self._tasks(rows, job).write.format("noop").mode("overwrite").save()
            offsets |= ends
            self._log.info("a part of the backlog is folded")
            self._show(self._store.read({partition: [] for partition in job.claims}))
        return True

    def _start(self, offsets: Offsets, job: Job, checkpoint: str) -> StreamingQuery:
        reader = self._options(self._spark.readStream.format("kafka"), offsets)
        if not self._app.merges:
            reader = reader.option("maxOffsetsPerTrigger", self._settings.batch_records)
        # The commits are made in the tasks and fenced, so nothing is left to be written: the sink is empty. Nothing
        # reads the checkpoint again, so no batch waits until it is written.
        writer = (
            self._tasks(reader.load(), job).writeStream.format("noop").option("asyncProgressTrackingEnabled", "true")
        )
        return writer.queryName(self.name).option("checkpointLocation", checkpoint).start()

    def _tasks(self, rows: DataFrame, job: Job) -> DataFrame:
        # A Python task costs tens of milliseconds: one for each slot, not for each partition.
        tasks = 1 if self._app.one_task else self._settings.slots
        return rows.selectExpr(*COLUMNS).coalesce(tasks).mapInArrow(job, "nothing long")

    def _options(self, reader: Reader, offsets: Offsets) -> Reader:
        """What the Kafka source is told, as a stream or as one slice."""
        assigned: dict[str, list[int]] = {}
        for topic, partition in offsets:
            assigned.setdefault(topic, []).append(partition)
        return (
            reader.options(**self._settings.security.source())
            .option("kafka.bootstrap.servers", self._settings.kafka)
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", as_json(offsets))
            # The source asks for a partition's begin and end behind each fetch, on the connection on which the consumer
            # prefetches already: Kafka holds them back until that fetch is answered, and there is nothing more to come.
            .option("kafka.fetch.max.wait.ms", "0")
            .option("kafka.isolation.level", "read_committed")
        )

    def _publisher(self) -> Publisher:
        return Publisher(self._app, self._store, self._topics, self._settings.kafka, self._settings.security)

    def _origins(self) -> dict[str, Origin]:
        return {topic: self._topics.origin(topic) for topic in self._app.topics}

    def _checkpoint(self) -> str:
        """An empty folder: the truth is in the store, and a query that starts anew starts there."""
        self._settings.checkpoints.mkdir(parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix=f"{self._app.name}-", dir=self._settings.checkpoints)

    def _pass_gaps(self, query: StreamingQuery, claims: Mapping[int, Claim]) -> None:
        """Where nothing is left to be read, bring the state to the end, to which no record may have brought it."""
        progress = query.lastProgress
        if progress is None or query.status["isDataAvailable"]:
            return
        # Read after the progress: an earlier look could miss what its batch has committed, and be refused.
        snapshots = self._store.read({partition: [] for partition in claims})
        read = json.loads(progress.sources[0].endOffset)
        commits = (passed(claim, snapshots[claim.partition], read) for claim in claims.values())
        if found := [commit for commit in commits if commit]:
            self._store.commit(*found)

    def _show(self, snapshots: Mapping[int, Snapshot]) -> None:
        """Tell the group and the endpoint how far the state is."""
        positions = {
            (topic, partition): offset
            for partition, snapshot in snapshots.items()
            for topic, offset in snapshot.positions.items()
        }
        self._membership.commit(positions)
        self.status.moved(positions)
        self.status.folding = True
        self.status.turn()


def _of(offsets: Mapping[tuple[str, int], int], partition: int) -> dict[str, int]:
    """Those of `partition`, by topic."""
    return {topic: offset for (topic, p), offset in offsets.items() if p == partition}


def reason(error: Exception) -> str:
    """The last line of what went wrong in a worker, else the error's own text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith(("\t", "  "))]
    workers = [line for line in lines if line.startswith(("streamstate.", "redis."))]
    return (workers or lines or [type(error).__name__])[0]
