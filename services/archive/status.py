"""The status of an archiver: probes and metrics."""

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from streamstate.deployment import metrics
from streamstate.deployment.metrics import Application, Definition, Fault
from streamstate.state.store import TopicPartition

STILL_S = 300.0
"""Seconds without a turn, or a read record, after which the archiver is stuck."""

_TOPIC = ("service", "topic")
_PARTITION = (*_TOPIC, "partition")
END = Definition("streamstate_archive_offset", _PARTITION, "next offset to archive")
KEPT = Definition(
    "streamstate_archive_reserve",
    _PARTITION,
    "archived records that Kafka still has",
)
LAG = Definition("streamstate_archive_lag", _PARTITION, "records in Kafka that the archive lacks")
LEFT = Definition(
    "streamstate_archive_seconds_left",
    _PARTITION,
    "seconds until retention.ms may delete a record that the archive lacks",
)
RETENTION = Definition("streamstate_archive_retention_seconds", _TOPIC, "retention.ms of the topic, in seconds")
FILES = Definition("streamstate_archive_files_total", _TOPIC, "written files")
BYTES = Definition("streamstate_archive_bytes_total", _TOPIC, "written bytes")
LOST = Definition(
    "streamstate_archive_lost_total", _TOPIC, "offsets deleted by Kafka before the archive had the records"
)
FAILURES = Definition("streamstate_archive_failures_total", ("service",), "failed attempts to write a file")
METRICS = (END, KEPT, LAG, LEFT, RETENTION, FILES, BYTES, LOST, FAILURES)


@dataclass(frozen=True)
class Progress:
    """A partition: the next offset to archive, Kafka's first and end offsets, retention and its rest in seconds."""

    end: int
    log_start: int
    log_end: int
    retention_s: float = math.inf
    left_s: float = math.inf


@dataclass(eq=False)
class ArchiverStatus(Collector):
    """Written by the archiver's loop, read by the port.

    service: the consumer group, the metrics' label. progress: by partition. faults: why a partition, or all (under the
    topic *), cannot be archived at present.
    """

    service: str
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    faults: dict[TopicPartition, str] = field(default_factory=dict)
    totals: Counter[tuple[Definition, str]] = field(default_factory=Counter)
    failures: int = 0
    turned: float = field(default_factory=time.monotonic)
    known: bool = False
    """Whether the consumer group has answered."""

    def turn(self) -> None:
        """Record that the loop goes on."""
        self.turned = time.monotonic()

    def count(self, topic: str, files: int = 0, size: int = 0, lost: int = 0) -> None:
        """Add to the totals of a topic: written files and bytes, and lost offsets."""
        for definition, more in ((FILES, files), (BYTES, size), (LOST, lost)):
            self.totals[definition, topic] += more

    def application(self) -> Application:
        """The WSGI application of the port."""
        return metrics.application(self, self._live, self._ready)

    def collect(self) -> Iterator[Metric]:
        progress = [*self.progress.items()]
        yield from _gauges(self.service, progress)
        for definition in (FILES, BYTES, LOST):
            counter = definition.counter()
            for (of, topic), total in [*self.totals.items()]:
                if of == definition:
                    counter.add_metric([self.service, topic], total)
            yield counter
        failures = FAILURES.counter()
        failures.add_metric([self.service], self.failures)
        yield failures

    def _live(self) -> Fault | None:
        return Fault("stuck") if time.monotonic() - self.turned > STILL_S else None

    def _ready(self) -> Fault | None:
        faults = {":".join(map(str, place)): why for place, why in [*self.faults.items()]}
        return Fault("not archiving", reasons=faults) if faults or not self.known else None


def _gauges(service: str, progress: list[tuple[TopicPartition, Progress]]) -> Iterator[Metric]:
    end, kept, lag, left = (definition.gauge() for definition in (END, KEPT, LAG, LEFT))
    for (topic, partition), each in progress:
        labels = [service, topic, str(partition)]
        end.add_metric(labels, each.end)
        kept.add_metric(labels, each.end - each.log_start)
        lag.add_metric(labels, max(0, each.log_end - each.end))
        left.add_metric(labels, each.left_s)
    retention = RETENTION.gauge()
    for topic, seconds in {topic: each.retention_s for (topic, _), each in progress}.items():
        retention.add_metric([service, topic], seconds)
    yield from (end, kept, lag, left, retention)
