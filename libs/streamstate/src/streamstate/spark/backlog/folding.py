"""The records that must be folded before a query: those in the archive, and a backlog of merged topics."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

import structlog
from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from streamstate.errors import Misconfigured
from streamstate.kafka.history import TopicHistory
from streamstate.settings import StreamSettings
from streamstate.spark.backlog.archived import Stretch, plan
from streamstate.spark.offsets import Offsets, next_slice, unreadable
from streamstate.spark.run import Run
from streamstate.spark.task import writer
from streamstate.state.store import Snapshot

PAUSE_S = 1.0


@dataclass(frozen=True)
class Backlog:
    """Folds the records before a query, by Spark jobs of at most `tasks` tasks.

    turn: called once a second during a job; returns why the run must end, None when it goes on. snapshots: of a run.
    pass_gaps: advances a run's state over offsets without records, by the ends and the snapshots.
    """

    spark: SparkSession
    history: TopicHistory
    settings: StreamSettings
    tasks: int
    turn: Callable[[Run], str | None]
    snapshots: Callable[[Run], Mapping[int, Snapshot]]
    pass_gaps: Callable[[Mapping[str, Mapping[str, int]], Run, Mapping[int, Snapshot]], None]
    log: structlog.typing.FilteringBoundLogger

    def fold(self, run: Run) -> str | None:
        """Fold the records; the run's offsets advance. Returns why the run must end before, None when all is folded."""
        return self._fold_archive(run) or self._fold_slices(run)

    def _fold_archive(self, run: Run) -> str | None:
        """Fold the archived records that Kafka has deleted, or that are more than a micro-batch."""
        most = self.settings.read_records(in_memory=run.task.app.one_task)
        if not (stretches := plan(self.history, run.task.app, run.offsets, most)):
            return None
        count = sum(stretch.records for stretch in stretches)
        self.log.info("folding the archive", partitions=sorted({each.partition for each in stretches}), records=count)
        if ended := self._run(run.archived(self.spark, stretches, self.tasks), run):
            return ended
        self._advance(run, stretches)
        self.log.info("the archive is folded", records=count)
        return None

    def _advance(self, run: Run, stretches: list[Stretch]) -> None:
        """Set the run's offsets to the state's. Raises `Misconfigured` for records folded too early without others."""
        whole = [stretch for stretch in stretches if stretch.before is None]
        read: dict[str, dict[str, int]] = {}
        for stretch in whole:
            for topic, (_, end) in stretch.ranges.items():
                read.setdefault(topic, {})[str(stretch.partition)] = end
        self.pass_gaps(read, run, self.snapshots(run))
        for partition, snapshot in self.snapshots(run).items():
            for topic, position in snapshot.positions.items():
                if (topic, partition) in run.offsets:
                    run.offsets[topic, partition] = max(position, run.offsets[topic, partition])
        for place, begin in self.history.topics.begins(run.offsets).items():
            if run.offsets[place] < begin:
                msg = (
                    f"Kafka has deleted the records of {place[0]}:{place[1]} before offset {begin}, and the records "
                    f"from offset {run.offsets[place]} on are merged with records of other topics that are not "
                    "archived: archive all merged topics (STREAMSTATE_ARCHIVE_TOPICS of the archiver)"
                )
                raise Misconfigured(msg)

    def _fold_slices(self, run: Run) -> str | None:
        """Fold a backlog of merged topics in slices, so that no micro-batch is larger than memory.

        A record that Spark cannot read ends a slice, and is refused without Spark.
        """
        topics = self.history.topics
        blocked = unreadable(topics, run.offsets, run.task)
        while blocked or run.task.app.merges:
            stops = {place: offset for place, (offset, *_) in blocked.items()}
            if not (ends := next_slice(topics, run.offsets, self.settings.read_records(in_memory=True), stops)):
                break
            if ended := self._fold_until(ends, run):
                return ended
            if reached := [place for place, offset in stops.items() if ends[place] == offset]:
                for place in reached:
                    writer(run.task).write({place: [blocked[place]]})
                    run.offsets[place] += 1
                # Not for each slice: a search may read all later records.
                blocked = unreadable(topics, run.offsets, run.task)
            self.log.info("a part of the backlog is folded")
        return None

    def _fold_until(self, ends: Offsets, run: Run) -> str | None:
        if ended := self._run(run.slice(self.spark, ends, self.tasks), run):
            return ended
        run.offsets.update(ends)
        return None

    def _run(self, job: Callable[[], None], run: Run) -> str | None:
        """Run a Spark job while the loop turns. Returns why the run must end, and then cancels the job."""
        context, group = self.spark.sparkContext, f"{run.task.app.name}-{run.task.query}"

        def grouped() -> None:
            context.setJobGroup(group, "backlog", interruptOnCancel=True)
            job()

        with ThreadPoolExecutor(1) as executor:
            folding = executor.submit(inheritable_thread_target(self.spark)(grouped))
            try:
                while not folding.done():
                    wait([folding], PAUSE_S)
                    if not folding.done() and (ended := self.turn(run)):
                        return ended
                folding.result()
            finally:
                if not folding.done():
                    with suppress(Py4JError):
                        context.cancelJobGroup(group)
        return None
