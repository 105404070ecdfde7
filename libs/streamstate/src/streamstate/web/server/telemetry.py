"""What a process tells Prometheus, and the log line of a request. No label and no line holds a key."""

import itertools
import os
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from streamstate.deployment.metrics import Definition
from streamstate.processing.decode import DEAD, MISPLACED
from streamstate.processing.truncation import LOST
from streamstate.state.store import Snapshot

log = structlog.get_logger()

REQUEST_ID = "X-Request-Id"
_REQUEST_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_RAW_REQUEST_ID = REQUEST_ID.lower().encode()
_SLOW_S = 1.0

Source = Callable[[], Awaitable[Iterable[Metric]]]
"""Further metrics, asked for at each scrape."""


REQUESTS = Definition("streamstate_requests_total", ("service", "route", "status"), "requests answered")
SECONDS = Definition("streamstate_request_seconds", ("service", "route"), "how long they took, a histogram")
FORWARDED = Definition(
    "streamstate_forwarded_requests_total",
    ("service",),
    "requests for keys of another instance, passed on; a steady rise says that a caller does not know the owners",
)
STOOD_IN = Definition(
    "streamstate_stood_in_requests_total",
    ("service",),
    "requests answered in place of an owner that was away or slow; a steady rise says that one of the others is ill",
)
REFUSED = Definition(
    "streamstate_refused_requests_total",
    ("service", "problem"),
    "requests that were refused unseen: overloaded ones are beyond REQUESTS_IN_FLIGHT, add instances; the others are "
    "malformed or too large",
)
OFFSET = Definition("streamstate_offset", ("service", "topic", "partition"), "the next offset of the state")
BEGIN = Definition(
    "streamstate_begin_offset",
    ("service", "topic", "partition"),
    "the offset at which the build of the state began; above 0, Kafka had deleted the records before it",
)
DEAD_LETTERS = Definition(
    "streamstate_dead_letters_total",
    ("service", "partition"),
    "records that could not be used; read them in <service>-dlq",
)
MISPLACED_KEYS = Definition(
    "streamstate_misplaced_keys_total",
    ("service", "partition"),
    "keys that another partitioner than murmur2 placed; set partitioner=murmur2_random in that producer",
)
LOST_RECORDS = Definition(
    "streamstate_lost_records_total",
    ("service", "partition"),
    "records that Kafka had deleted before they were read; the state lacks them for good",
)
COUNTED = Definition(
    "streamstate_counted_total",
    ("service", "partition", "what"),
    "what the service's folds count, such as records that came too late for their window",
)
_OWN_COUNTERS = {DEAD: DEAD_LETTERS, MISPLACED: MISPLACED_KEYS, LOST: LOST_RECORDS}
METRICS = (REQUESTS, SECONDS, FORWARDED, STOOD_IN, REFUSED, OFFSET, BEGIN, *_OWN_COUNTERS.values(), COUNTED)


class Telemetry:
    """What a process counts of its own requests; of all worker processes together where gunicorn runs several."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._requests, forwarded, stood_in, self._refused = (
            Counter(metric.name, metric.meaning, metric.labels, registry=self._registry)
            for metric in (REQUESTS, FORWARDED, STOOD_IN, REFUSED)
        )
        self._seconds = Histogram(SECONDS.name, SECONDS.meaning, SECONDS.labels, registry=self._registry)
        self.forwarded, self.stood_in = forwarded.labels(service), stood_in.labels(service)
        self._by_route: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._further: list[Source] = []
        # A UUID for each request would be a system call for each. Made by the first request, not here: what gunicorn
        # makes before it forks is the same in every worker.
        self._run = ""
        self._numbers = itertools.count()

    def further(self, source: Source) -> None:
        """Let every scrape ask `source` too."""
        self._further.append(source)

    def refused(self, problem: str) -> None:
        """Count a request that the application never saw, by the kind of its problem."""
        self._refused.labels(self._service, problem).inc()

    def answered(self, headers: Iterable[tuple[bytes, bytes]], route: str, status: int, seconds: float) -> str:
        """Count and time an answer; returns the id of its request, the one that `headers` give if it is one."""
        children = self._by_route.get((route, status))
        if children is None:
            children = self._requests.labels(self._service, route, status), self._seconds.labels(self._service, route)
            self._by_route[route, status] = children
        counter, histogram = children
        counter.inc()
        histogram.observe(seconds)
        request_id = self._request_id(headers)
        # A 503 says itself what is missing, and there may be thousands.
        if (status >= 500 and status != 503) or seconds > _SLOW_S:
            ms = round(seconds * 1000)
            log.warning("slow or failed", route=route, status=status, ms=ms, request_id=request_id)
        return request_id

    async def scrape(self) -> bytes:
        """All counts as Prometheus reads them."""
        further = [metric for source in self._further for metric in await source()]
        workers = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        # The collector has no annotations.
        own = MultiProcessCollector(None) if workers else self._registry  # type: ignore[no-untyped-call]
        return generate_latest(own) + generate_latest(cast("Any", SimpleNamespace(collect=lambda: further)))

    def _request_id(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        given = next((text.decode("latin-1") for name, text in headers if name == _RAW_REQUEST_ID), "")
        if _REQUEST_ID_FORM.fullmatch(given):
            return given
        self._run = self._run or uuid.uuid4().hex[:16]
        return f"{self._run}{next(self._numbers):016x}"


def of_partitions(service: str, snapshots: Mapping[int, Snapshot]) -> Iterable[Metric]:
    """What the state itself says: these counts are as exact as the state."""
    offset, begin = OFFSET.gauge(), BEGIN.gauge()
    counters = {metric: metric.counter() for metric in (*_OWN_COUNTERS.values(), COUNTED)}
    for partition, snapshot in snapshots.items():
        for topic, position in snapshot.positions.items():
            offset.add_metric([service, topic, str(partition)], position)
        for topic, first in snapshot.begins.items():
            begin.add_metric([service, topic, str(partition)], first)
        for name, count in {**dict.fromkeys(_OWN_COUNTERS, 0), **snapshot.counters}.items():
            of_folds = [] if name in _OWN_COUNTERS else [name]
            counters[_OWN_COUNTERS.get(name, COUNTED)].add_metric([service, str(partition), *of_folds], count)
    return (offset, begin, *counters.values())
