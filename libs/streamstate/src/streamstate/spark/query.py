"""One hosted app: its query, restarted from the stored offsets."""

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory

import structlog
from confluent_kafka import KafkaException
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from redis.exceptions import NoPermissionError, RedisError

from streamstate import bootstrap
from streamstate.deployment import resources, tracing
from streamstate.deployment.background import keep_running
from streamstate.erasure.stream import Erasure
from streamstate.errors import FencedInstance, IncompleteCommit, Misconfigured, StreamStateError, TooManyDeadLetters
from streamstate.formats.applied import registered
from streamstate.kafka.admin import client_id
from streamstate.kafka.claims import Claims
from streamstate.kafka.consumer_group import Membership, Partitions
from streamstate.kafka.dlq.topic import Refusals
from streamstate.kafka.held_up import HeldUp
from streamstate.kafka.presence import REPORT_S, Presence
from streamstate.kafka.reading import sampled_keys
from streamstate.kafka.totals import Publisher
from streamstate.processing.fitness import needed, passed, require_copartitioned
from streamstate.processing.limits import TimestampLimit
from streamstate.processing.placement import Placement
from streamstate.processing.topic_settings import Finding, require_settings, unbounded
from streamstate.settings import StreamSettings
from streamstate.spark.backlog.folding import Backlog
from streamstate.spark.run import Hosted, Run, reason
from streamstate.spark.status import Status
from streamstate.spark.task import FoldTask
from streamstate.state.store import Origin, Snapshot, positions_of, whole

log = structlog.get_logger()

PAUSE_S = 1.0
REFUSED_PAUSE_S = 5.0
"""Seconds before a retry after a refusal: an operator may have decided."""

FAILURES = (StreamStateError, RedisError, KafkaException, StreamingQueryException, PythonException, Py4JJavaError)
"""Failures after which a query is restarted in the same process; `Py4JJavaError`: a worker died in a slice."""


class Stream:
    """One hosted app: a query over the held partitions, restarted when the partitions change or a commit is refused."""

    def __init__(
        self, hosted: Hosted, settings: StreamSettings, spark: SparkSession, stopping: threading.Event, tasks: int
    ) -> None:
        """`tasks` is the most tasks of a batch. Raises `Misconfigured` where traces cannot be exported."""
        app = self._app = hosted.app
        self.name = f"{app.name}-{hosted.instance}"
        self._settings = settings
        self._spark = spark
        self._stopping = stopping
        self._tasks = tasks
        self._partitions = Partitions()
        self._store = bootstrap.store_over(bootstrap.client(settings), app.name)
        self._topics = bootstrap.topics(settings.kafka, settings.security)
        session_ms = settings.session_timeout_ms
        self._history = bootstrap.history(settings, self._topics)
        self._pointer = bootstrap.pointer(settings, app)
        self._commands = bootstrap.commands(app)
        self._deployments, self._recorded = bootstrap.deployments(settings), bootstrap.recorded(app)
        truncated, skip_lost = settings.truncated_topics, settings.lost_records == "skip"
        self._claims = Claims(app, self._store, self._history, hosted.advertise, truncated, skip_lost=skip_lost)
        self._check, self._said = bootstrap.topic_check(app, settings), list[Finding]()
        self._refusals = Refusals(self._history, app.dead_letters)
        self._held_up = HeldUp(app, self._topics)
        deletions = bootstrap.deletions(settings, self._topics)
        self._erasure = Erasure(app, self._store, deletions, settings.users_expire_ms)
        self.status = Status(app.name, self._history, tracing.spans(f"{app.name}-stream"))
        self._presence = Presence(
            self._store,
            settings.redis,
            self._topics,
            app.group,
            hosted.instance,
            hosted.advertise,
            session_ms,
            lambda: self.status.trouble,
        )
        self._log = log.bind(service=app.name, instance=hosted.instance)
        sampled = partial(sampled_keys, self._topics)
        self._placement = Placement(app, self._store, self._topics.partitions, sampled)
        callbacks = self._turn, self._snapshots, self._pass_gaps
        self._backlog = Backlog(spark, self._history, settings, tasks, *callbacks, self._log)
        self._joined = False
        self._membership = Membership(
            settings.kafka, app.group, hosted.instance, session_ms, self._partitions.update, settings.security
        )

    def run(self) -> None:
        """Run until the process stops: after a failure or a refusal, start again from the state."""
        keep_running("deletions", self._erasure.find_due, PAUSE_S, stopping=self._stopping)
        keep_running("presence", self._presence.update, REPORT_S, stopping=self._stopping)
        while not self._stopping.is_set():
            self.status.turn()
            self._membership.require()
            try:
                with self._commands:
                    if run := self._prepare():
                        self._log.info("the query ended; it starts again", reason=self._supervise(run))
            except FencedInstance:
                raise
            except (Misconfigured, IncompleteCommit) as error:
                self._log.error("the stream refuses to go on", reason=str(error))
                self.status.refused(str(error))
                self._stopping.wait(REFUSED_PAUSE_S)
            except FAILURES as error:
                why = self._commands.complete(reason(error))
                if TooManyDeadLetters.__name__ in why:
                    self._halt(why)
                    continue
                self._held_up.suspect(f"{type(error).__name__}: {reason(error)}")
                self._log.warning("the query stopped; it starts again from the stored offsets", reason=why)
                self.status.failed(why)
                self._stopping.wait(PAUSE_S)
        if self._joined:
            self._membership.stop()

    def _halt(self, why: str) -> None:
        """Fold nothing until the process ends: only another release, or other settings, would help."""
        self._log.error("the stream stops", reason=why)
        self.status.refused(why)
        while not self._stopping.wait(PAUSE_S):
            self.status.turn()
            self._membership.require()

    def _prepare(self) -> Run | None:
        """Claim the assigned partitions; None after a while without any."""
        self._record()
        origins = self._topics.describe(self._app.topics)
        require_copartitioned(self._app, origins)
        held = self._assigned(origins)
        if not held:
            self.status.idle(known=self._partitions.known)
            self._partitions.changed.wait(PAUSE_S)
            return None
        snapshots, left_out = whole(self._store, held)
        if left_out and (self._app.tables or not snapshots):
            raise next(iter(left_out.values()))
        self._pointer.require_kept(max((each.record for each in snapshots.values()), default=0))
        settings = self._topics.settings(self._check.topics)
        self._require_settings(self._check.findings(settings), snapshots)
        claims, offsets = self._claims.claim(snapshots, origins)
        self.status.history = needed(self._app, snapshots.values(), self._settings.truncated_topics)
        erased = self._erasure.apply(claims, origins)
        resources.return_free_memory()  # a deletion reads and writes whole logs
        tables = self._incomplete_tables(max(origin.partitions for origin in origins.values()))
        folded = tables or self._app.topics
        offsets = self._held_up.leave_out({place: at for place, at in offsets.items() if place[0] in folded})
        self.status.waiting, self.status.waits = len(self._held_up.places), self._held_up.reason
        if not offsets:
            self._stopping.wait(PAUSE_S)
            return None
        # `registered` asks the registry once. A worker cannot import the types of a profile's views.
        app = replace(registered(self._app), views=())
        log_line, waiting = self._log.error if left_out else self._log.info, self.status.waits
        why = {partition: self._commands.complete(str(error)) for partition, error in left_out.items()}
        log_line("folding", partitions=sorted(claims), topics=folded, left_out=list(why.values()), waiting=waiting)
        refused = self._refusals.read(origins, claims)
        timestamps = TimestampLimit(unbounded(self._check.tolerances, settings), refused)
        task = FoldTask(app, claims, origins, timestamps, erased, self._topics.security, self._settings)
        return Run(bool(tables), self._claims.filling(origins), offsets, task, self._publisher(held), why)

    def _require_settings(self, found: Sequence[Finding], snapshots: Mapping[int, Snapshot]) -> None:
        """Log each finding once. Raises `Misconfigured` for a finding that refuses the start."""
        require_settings(found, snapshots, self._settings.truncated_topics)
        for finding in found:
            if finding not in self._said:
                self._log.warning("a topic has a wrong setting", reason=self._commands.complete(finding.text))
        self._said = [*found]

    def _record(self) -> None:
        """Store what commands need to find the deployment."""
        try:
            self._deployments.store(self._app.name, self._recorded)
        except NoPermissionError as error:
            hint = "grant the rights that `streamstate acl redis` prints; until then, commands find the service by name"
            self._log.warning(hint, reason=str(error))

    def _assigned(self, origins: Mapping[str, Origin]) -> frozenset[int]:
        """The partitions assigned by the consumer group; the first call joins the group with the widest topic."""
        widest = max(origins, key=lambda topic: origins[topic].partitions)
        if not self._joined:
            self._presence.require_free_group()
            self._membership.start(widest, client_id=client_id(self._presence.process))
            self._joined = True
        # As a member of the group, a stream without its output topics is visible.
        self._topics.describe(self._app.outputs)
        self._presence.require_one_redis()
        self._pointer.publishing(self._app.name)
        self._partitions.changed.clear()
        # The group may know of new partitions earlier.
        return frozenset(p for p in self._partitions.held if p < origins[widest].partitions)

    def _publisher(self, held: Collection[int]) -> Publisher | None:
        """The publisher of totals, at the owner of partition 0."""
        if not self._app.totals or 0 not in held:
            return None
        return Publisher(self._app, self._store, self._topics, partial(self._pointer.publishing, self._app.name))

    def _supervise(self, run: Run) -> str:
        """Run the query until a restart is needed; returns the reason. Raises the query's own failure."""
        self.status.started("; ".join(run.left_out.values()))
        # Before the state moves: a reader of the new state reads no earlier refusal.
        self._presence.report()
        if ended := self._backlog.fold(run):
            return ended
        parent = self._settings.checkpoints
        parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory("", f"{self._app.name}-", parent, ignore_cleanup_errors=True) as checkpoint:
            query = run.start(self._spark, self.name, self._tasks, checkpoint)
            try:
                return self._watch(query, run)
            finally:
                query.stop()

    def _watch(self, query: StreamingQuery, run: Run) -> str:
        """Check the query once a second until a restart is needed; returns the reason."""
        while not query.awaitTermination(PAUSE_S):  # type: ignore[arg-type]  # seconds may be a fraction
            self._membership.require()
            progress, behind = query.lastProgress, query.status["isDataAvailable"]
            # After the progress: an earlier snapshot could miss the commits of its batch.
            snapshots = self._snapshots(run)
            if ended := self._ended(run, snapshots):
                return ended
            if progress:
                self.status.finished(progress.batchId)
                self.status.trace(query)
                if not behind:
                    self._pass_gaps(json.loads(progress.sources[0].endOffset), run, snapshots)
            self._show(snapshots)
            if run.publisher:
                with suppress(IncompleteCommit):
                    run.publisher.publish(run.partitions)
        return "Spark ended it"

    def _ended(self, run: Run, snapshots: Mapping[int, Snapshot]) -> str | None:
        """Why the query must be restarted, None when it continues. Raises `Misconfigured` when a topic is gone."""
        if self._stopping.is_set():
            return "the process stops"
        if self._partitions.changed.is_set():
            return "the partitions changed"
        topics = {topic: self._topics.origin(topic) for topic in (*self._app.topics, *self._app.outputs)}
        if {topic: topics[topic] for topic in self._app.topics} != run.origins:
            return "a topic changed"
        if any(snapshots[partition].epoch != claim.epoch for partition, claim in run.claims.items()):
            return "the state was emptied, or claimed by another"
        if run.left_out and whole(self._store, run.left_out)[0]:
            return "a partition with half a commit was reset"
        if built := self._built(run):
            return built
        if self._erasure.has_due_deletions:
            return "a user is to be deleted"
        self._presence.require_one_redis()
        if self._topics.security != run.task.security:
            return "the credentials for Kafka changed"
        if self._held_up.can_resume():
            return "the schema registry answers"
        return None

    def _built(self, run: Run) -> str | None:
        if run.building and not self._incomplete_tables(run.partitions):
            return "the tables are complete"
        if run.filling and not self._claims.filling(run.origins):
            return "the topics behind the app's own topics are complete"
        return None

    def _incomplete_tables(self, partitions: int) -> tuple[str, ...]:
        """The app's tables while a partition of a table, of any owner, is in its build or unclaimed; else empty."""
        if not self._app.tables:
            return ()
        snapshots = self._store.read({partition: [] for partition in range(partitions)}).values()
        return () if all(snapshot.ready(self._app.tables) for snapshot in snapshots) else self._app.tables

    def _turn(self, run: Run) -> str | None:
        """Turn the loop during a job of `run`; returns why the run must end, None when it continues."""
        self._membership.require()
        snapshots = self._snapshots(run)
        self._show(snapshots)
        return self._ended(run, snapshots)

    def _pass_gaps(self, read: Mapping[str, Mapping[str, int]], run: Run, snapshots: Mapping[int, Snapshot]) -> None:
        """Advance fully read partitions over the offsets without records at the end."""
        commits = (passed(claim, snapshots[partition], read) for partition, claim in run.claims.items())
        if gaps := [commit for commit in commits if commit]:
            self._store.commit(*gaps)

    def _show(self, snapshots: Mapping[int, Snapshot]) -> None:
        """Report the positions to the consumer group and the status endpoint."""
        positions = positions_of(snapshots)
        self._membership.commit(positions)
        self.status.moved(positions)
        self.status.unpublished = self._pointer.hand_over(self._app.name, self._store)
        self.status.folding = True
        self._placement.look(snapshots)
        self.status.turn()

    def _snapshots(self, run: Run) -> Mapping[int, Snapshot]:
        return self._store.read({partition: [] for partition in run.claims})
