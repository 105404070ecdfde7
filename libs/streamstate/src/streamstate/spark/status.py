"""The status of a stream process over HTTP: live loops, folding, progress."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import KafkaException
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.query import StreamingQuery

from streamstate.deployment import metrics
from streamstate.deployment.address import Address
from streamstate.deployment.metrics import Application, Definition, Fault
from streamstate.kafka.history import TopicHistory
from streamstate.state.store import TopicPartition

if TYPE_CHECKING:
    from streamstate.deployment.spans import Spans

log = structlog.get_logger()

STILL_S = 60.0
"""Seconds without a turn after which a loop is stuck: longer than all waits of one turn."""

MOST_IN_A_ROW = 3
"""Failures without a finished batch in between after which a query is not ready."""

BATCHES = Definition("streamstate_stream_batches_total", ("service",), "finished micro-batches")
COMMITTED = Definition("streamstate_stream_committed_total", ("service",), "committed offsets")
FAILURES = Definition(
    "streamstate_stream_failures_total",
    ("service",),
    "queries started again at the stored offsets",
)
LAG = Definition(
    "streamstate_stream_lag",
    ("service", "topic", "partition"),
    "records in Kafka without a commit",
)
REFUSED = Definition(
    "streamstate_stream_refused",
    ("service",),
    "1 while partitions wait for an operator's decision",
)
WAITING = Definition(
    "streamstate_stream_waiting_for_schema",
    ("service",),
    "partitions waiting for a schema of the registry",
)
HELD_BACK = Definition(
    "streamstate_stream_held_back",
    ("service", "topic", "partition"),
    "records held back by an open transaction",
)
HISTORY = Definition(
    "streamstate_history_seconds",
    ("service", "topic"),
    "seconds until retention.ms may delete the first needed record; 0: deleted",
)
METRICS = (BATCHES, COMMITTED, FAILURES, LAG, HELD_BACK, REFUSED, WAITING, HISTORY)


@dataclass
class Status:
    """One hosted app, written by its loop and read by the endpoint.

    records: asked at each scrape for the ends of partitions, and for the remaining time of `history`.
    history: the topics needed by a build from their first records on.
    spans: the maker of its micro-batches' spans, None without traces.
    waiting: how many partitions wait for the schema registry. waits: why, empty when none does.
    """

    service: str
    records: TopicHistory
    spans: "Spans | None" = None
    history: Collection[str] = ()
    folding: bool = False
    refusal: str = ""
    waiting: int = 0
    waits: str = ""
    unpublished: str = ""
    """Whose outputs come first, during a hand-over."""
    batches: int = 0
    committed: int = 0
    failures: int = 0
    failure: str = ""
    """The reason of repeated failures of the query."""
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    turned: float = field(default_factory=time.monotonic)
    _in_a_row: int = 0
    _earlier: int = 0
    _traced: int = -1

    def turn(self) -> None:
        """Record a turn of the loop."""
        self.turned = time.monotonic()

    def moved(self, positions: Mapping[TopicPartition, int]) -> None:
        """Set the state's `positions`, the next offsets of all partitions held by this instance."""
        before = self.positions
        self.committed += sum(max(0, at - before[place]) for place, at in positions.items() if place in before)
        self.positions = positions

    def started(self, refusal: str = "") -> None:
        """A query starts, with batch numbers from 0; `refusal` is the reason for partitions left out."""
        self._earlier, self._traced = self.batches, -1
        self.refusal = refusal

    def finished(self, batch: int) -> None:
        """The query has finished `batch`, a number."""
        self.batches = self._earlier + batch + 1
        self._in_a_row, self.failure = 0, ""

    def trace(self, query: StreamingQuery) -> None:
        """Export spans of the query's finished batches, where traces are enabled."""
        if self.spans:
            self._traced = self.spans.batches(query.recentProgress, self._traced)

    def idle(self, *, known: bool) -> None:
        """The group assigns no partitions; `known` after the group's answer."""
        self.folding = known
        self.refusal = ""

    def failed(self, reason: str) -> None:
        """The query failed: nothing is folded until the next query runs, or has finished a batch."""
        self.folding = False
        self.failures += 1
        self._in_a_row += 1
        if self._in_a_row >= MOST_IN_A_ROW:
            self.failure = f"the query failed {self._in_a_row} times in a row: {reason}"

    @property
    def trouble(self) -> str:
        """Why some or all partitions are not folded, for an operator; empty without trouble."""
        return self.refusal or self.records.topics.trouble or self.failure or self.waits or self.unpublished

    @property
    def idle_for(self) -> str | None:
        """Why not all partitions are folded, empty when intended; None when all are folded."""
        if self.folding and not (self.waiting or self.failure or self.unpublished):
            return None
        return self.trouble

    def refused(self, reason: str) -> None:
        """Nothing is folded until an operator has decided about `reason`."""
        self.folding = False
        self.refusal = reason

    def stuck(self, now: float) -> bool:
        """Whether the last turn of the loop is too long ago; `now` is on the monotonic clock, in seconds."""
        return now - self.turned > STILL_S


class StatusCollector(Collector):
    """The counts of all hosted apps."""

    def __init__(self, statuses: Sequence[Status]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        batches, committed, failures = (metric.counter() for metric in (BATCHES, COMMITTED, FAILURES))
        lag, held_back, refused, waiting = (metric.gauge() for metric in (LAG, HELD_BACK, REFUSED, WAITING))
        history = HISTORY.gauge()
        for status in self._statuses:
            batches.add_metric([status.service], status.batches)
            committed.add_metric([status.service], status.committed)
            failures.add_metric([status.service], status.failures)
            refused.add_metric([status.service], bool(status.refusal or status.unpublished))
            waiting.add_metric([status.service], status.waiting)
            for (topic, partition), (behind, held) in _lag(status).items():
                lag.add_metric([status.service, topic, str(partition)], behind)
                held_back.add_metric([status.service, topic, str(partition)], held)
            for topic, left_s in _history(status).items():
                history.add_metric([status.service, topic], left_s)
        yield from (batches, committed, failures, lag, held_back, refused, waiting, history)


def _lag(status: Status) -> dict[TopicPartition, tuple[int, int]]:
    """By partition, the number of records that the state lacks, and how many of them an open transaction holds back."""
    positions, topics = status.positions, status.records.topics
    try:
        stable, ends = topics.ends(positions), topics.high_watermarks(positions)
    except KafkaException as error:
        log.info("the lag is unknown", service=status.service, reason=str(error))
        return {}
    return {place: (max(0, end - positions[place]), max(0, end - stable[place])) for place, end in ends.items()}


def _history(status: Status) -> Mapping[str, float]:
    """The remaining seconds of each topic's history, where its retention is limited by time."""
    try:
        return status.records.left(place for place in status.positions if place[0] in status.history)
    except (KafkaException, OSError) as error:
        log.info("the retention is unknown", service=status.service, reason=str(error))
        return {}


def application(statuses: Sequence[Status]) -> Application:
    """The WSGI application: `/livez`, `/readyz` and `/metrics`."""

    def live() -> Fault | None:
        stuck = [status.service for status in statuses if status.stuck(time.monotonic())]
        return Fault("stuck", services=stuck) if stuck else None

    def ready() -> Fault | None:
        idle = {status.service: why for status in statuses if (why := status.idle_for) is not None}
        reasons = {service: why for service, why in idle.items() if why}
        if idle:
            return Fault("not folding", services=[*idle], reasons=reasons)
        # Without the stream, its pod would not get reads either, and these need no Kafka.
        silent = {status.service: told for status in statuses if (told := status.records.topics.trouble)}
        return Fault("ok", failing=False, reasons=silent) if silent else None

    return metrics.application(StatusCollector(statuses), live, ready)


def serve(statuses: Sequence[Status], address: Address) -> None:
    """Answer at `address`, in the background, for the life of the process."""
    metrics.serve(application(statuses), address)
