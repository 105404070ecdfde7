"""Metrics of a process, and the log line of a request. No label and no line holds a key."""

import itertools
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

from streamstate.deployment import background
from streamstate.deployment.logs import REQUEST_ID, TRACE_PARENT
from streamstate.deployment.metrics import Definition

log = structlog.get_logger()

_IDS = {
    REQUEST_ID.lower().encode(): (REQUEST_ID, re.compile(rb"[A-Za-z0-9._-]{1,64}")),
    TRACE_PARENT.encode(): (TRACE_PARENT, re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")),
}
_SLOW_S = 1.0

Source = Callable[[], Awaitable[Iterable[Metric]]]
"""Further metrics, asked for at each scrape."""


REQUESTS = Definition("streamstate_requests_total", ("service", "route", "status"), "answered requests")
SECONDS = Definition("streamstate_request_seconds", ("service", "route"), "duration of requests")
FORWARDED = Definition(
    "streamstate_forwarded_requests_total",
    ("service",),
    "requests passed on to the key's owner",
)
STOOD_IN = Definition(
    "streamstate_stood_in_requests_total",
    ("service",),
    "requests answered for a missing or slow owner; steady for an ill instance",
)
REFUSED = Definition(
    "streamstate_refused_requests_total",
    ("service", "problem"),
    "requests refused unread: overloaded, malformed or too large",
)
UNREADABLE = Definition(
    "streamstate_unreadable_files_total",
    ("service", "file"),
    "looks at an unusable file of keys or tokens, with the previous content in use",
)
OPEN_STREAMS = Definition(
    "streamstate_open_streams",
    ("service",),
    "open event streams",
)
METRICS = (REQUESTS, SECONDS, FORWARDED, STOOD_IN, REFUSED, UNREADABLE, OPEN_STREAMS)


class Telemetry:
    """Counters of a process's own requests; summed over all worker processes of gunicorn."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._registry.register(background.FAILED)
        self._requests, forwarded, stood_in, self._refused, self._unreadable = (
            Counter(metric.name, metric.meaning, metric.labels, registry=self._registry)
            for metric in (REQUESTS, FORWARDED, STOOD_IN, REFUSED, UNREADABLE)
        )
        self._seconds = Histogram(SECONDS.name, SECONDS.meaning, SECONDS.labels, registry=self._registry)
        streams = Gauge(
            OPEN_STREAMS.name,
            OPEN_STREAMS.meaning,
            OPEN_STREAMS.labels,
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self.open_streams = streams.labels(service)
        self.forwarded, self.stood_in = forwarded.labels(service), stood_in.labels(service)
        self._by_route: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._further: list[Source] = []
        self._process, self._numbers = secrets.token_hex(8), itertools.count()

    def further(self, source: Source) -> None:
        """Let every scrape ask `source` too."""
        self._further.append(source)

    def refused(self, problem: str) -> None:
        """Count a request refused before the application, by the kind of its problem."""
        self._refused.labels(self._service, problem).inc()

    def unreadable(self, file: str) -> None:
        """Count an attempt to read a changed `file` that cannot be used."""
        self._unreadable.labels(self._service, file).inc()

    def ids(self, headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
        """Headers that identify a request in the logs of all processes with a part in its answer.

        `REQUEST_ID` is taken from `headers` if valid, or else new; `TRACE_PARENT` is present if given.
        """
        ids = {}
        for lower, value in headers:
            if (known := _IDS.get(lower)) and known[1].fullmatch(value):
                ids[known[0]] = value.decode()
        if REQUEST_ID not in ids:
            # A random number for each request would be a system call.
            ids[REQUEST_ID] = f"{self._process}{next(self._numbers):016x}"
        return ids

    def answered(self, route: str, status: int, seconds: float, *, logged: bool) -> None:
        """Count and time an answer. It is `logged` in any case when it is slow or failed."""
        children = self._by_route.get((route, status))
        if children is None:
            children = self._requests.labels(self._service, route, status), self._seconds.labels(self._service, route)
            self._by_route[route, status] = children
        counter, histogram = children
        counter.inc()
        histogram.observe(seconds)
        # A 503 explains itself, and there may be thousands.
        if (status >= 500 and status != 503) or seconds > _SLOW_S:
            log.warning("slow or failed", route=route, status=status, ms=round(seconds * 1000))
        elif logged:
            log.info("answered", route=route, status=status, ms=round(seconds * 1000))

    def views_answered(self) -> int:
        """The requests for views, by all worker processes together since the start."""
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            # Counters only: reading all metrics would take ten times as long.
            files = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).glob("counter_*.db")
            # prometheus_client has no annotations.
            metrics = cast("Any", MultiProcessCollector).merge([str(file) for file in files])
        else:
            metrics = self._requests.collect()
        samples = (sample for metric in metrics for sample in metric.samples if sample.name == REQUESTS.name)
        return int(sum(sample.value for sample in samples if sample.labels["route"].startswith("/v1/")))

    async def scrape(self) -> bytes:
        """All metrics in Prometheus' text format."""
        further = [metric for source in self._further for metric in await source()]
        workers = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        # The collector has no annotations.
        own = MultiProcessCollector(None) if workers else self._registry  # type: ignore[no-untyped-call]
        return generate_latest(own) + generate_latest(cast("Any", SimpleNamespace(collect=lambda: further)))
