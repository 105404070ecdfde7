"""The plan of one run of a query, and the reason of its end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamstate.app import App
from streamstate.kafka.totals import Publisher
from streamstate.spark.backlog.archived import ArchiveTask, Stretch, shared
from streamstate.spark.offsets import Offsets, as_json, kafka_source
from streamstate.spark.task import FoldTask, in_tasks
from streamstate.state.store import Claim, Origin

CHECKPOINT_MS = 3_600_000

_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Hosted:
    """An app run by this process as `instance`, whose API has the address `advertise`."""

    app: App
    instance: str
    advertise: str


@dataclass(frozen=True)
class Run:
    """One run of the query: the `offsets` to read from, and the work of its tasks.

    building: whether only tables are read, until all tables are complete. filling: whether the topics behind the app's
        own topics are being built: the own topics get their targets from a claim behind these builds.
    offsets: of the topics to read; advanced by a backlog folded before the query starts.
    publisher: of the app's totals, on the instance that publishes totals.
    left_out: by partition, why a held partition is not folded until an operator resets it.
    """

    building: bool
    filling: bool
    offsets: Offsets
    task: FoldTask
    publisher: Publisher | None
    left_out: Mapping[int, str]

    @property
    def partitions(self) -> int:
        """The partition count of the app, over all owners."""
        return max(self.task.counts.values())

    @property
    def origins(self) -> Mapping[str, Origin]:
        return self.task.origins

    @property
    def claims(self) -> Mapping[int, Claim]:
        return self.task.claims

    def start(self, spark: SparkSession, name: str, tasks: int, checkpoint: str) -> StreamingQuery:
        """Start the query. tasks: the most tasks of a batch. checkpoint: a folder that is never read."""
        task, settings = self.task, self.task.settings
        reader = kafka_source(spark.readStream.format("kafka"), task, self.offsets)
        if not task.app.merges:
            reader = reader.option("maxOffsetsPerTrigger", settings.read_records(in_memory=task.app.one_task))
        # The tasks make the fenced commits: the sink gets no rows. The checkpoint is never read, so rarely written.
        sink = in_tasks(reader.load(), task, tasks).writeStream.format("noop")
        sink = sink.option("asyncProgressTrackingEnabled", "true")
        sink = sink.option("asyncProgressTrackingCheckpointIntervalMs", str(CHECKPOINT_MS))
        sink = sink.trigger(processingTime=f"{settings.trigger_ms} milliseconds")
        return sink.queryName(name).option("checkpointLocation", checkpoint).start()

    def slice(self, spark: SparkSession, ends: Offsets, tasks: int) -> Callable[[], None]:
        """The job that folds the records before `ends`."""
        reader = kafka_source(spark.read.format("kafka"), self.task, self.offsets)
        rows = in_tasks(reader.option("endingOffsets", as_json(ends)).load(), self.task, tasks)
        return rows.write.format("noop").mode("overwrite").save

    def archived(self, spark: SparkSession, stretches: Sequence[Stretch], tasks: int) -> Callable[[], None]:
        """The job that folds archived records, in at most `tasks` tasks."""
        lists = shared(stretches, tasks)
        return partial(spark.sparkContext.parallelize(lists, len(lists)).foreachPartition, ArchiveTask(self.task))


def reason(error: Exception) -> str:
    """The exception of the Python worker, else the first line of the error's own text.

    Spark's texts have the worker's traceback, with indented frames, before the JVM's.
    """
    raised, in_traceback = "", False
    lines = [line for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if _TRACEBACK in line:
            in_traceback = True
        elif in_traceback and not line.startswith((" ", "\t")):
            raised, in_traceback = line.strip(), False
    return raised or (lines[0].strip() if lines else type(error).__name__)
