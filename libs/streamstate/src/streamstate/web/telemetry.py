"""What a process tells Prometheus, and the log line of a request. No label and no line holds a key."""

import itertools
import re
import time
import uuid
from collections.abc import Iterator

import structlog
from apiflask import APIFlask
from flask import Response, g, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamstate.app import App
from streamstate.kafka import Topics
from streamstate.lost import LOST
from streamstate.metrics import Definition
from streamstate.processing import DEAD, MISPLACED
from streamstate.state import Store

log = structlog.get_logger()

REQUEST_ID = "X-Request-Id"
_REQUEST_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_SLOW_S = 1.0


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
METRICS = (REQUESTS, SECONDS, FORWARDED, STOOD_IN, REFUSED, OFFSET, DEAD_LETTERS, MISPLACED_KEYS, LOST_RECORDS, COUNTED)


class Telemetry:
    """What a process counts of its own requests."""

    def __init__(self, service: str) -> None:
        self.service = service
        self.registry = CollectorRegistry()
        self._requests = Counter(*_positional(REQUESTS), registry=self.registry)
        self._seconds = Histogram(*_positional(SECONDS), registry=self.registry)
        self.forwarded = Counter(*_positional(FORWARDED), registry=self.registry).labels(service)
        self.stood_in = Counter(*_positional(STOOD_IN), registry=self.registry).labels(service)
        self._refused = Counter(*_positional(REFUSED), registry=self.registry)

    def refused(self, problem: str) -> None:
        """Count a request that the application never saw, by the kind of its problem."""
        self._refused.labels(self.service, problem).inc()

    def install(self, app: APIFlask) -> None:
        """Count and time every request of `app`, give it an id, and serve `/metrics`."""
        # A UUID for each request would be a system call for each, and other threads run meanwhile. Not in the module:
        # gunicorn imports it once, and every worker that it forks would begin with the same.
        run, numbers = uuid.uuid4().hex[:16], itertools.count()

        @app.before_request
        def start() -> None:
            g.started = time.perf_counter()
            given = request.headers.get(REQUEST_ID, "")
            g.request_id = given if _REQUEST_ID_FORM.fullmatch(given) else f"{run}{next(numbers):016x}"

        @app.after_request
        def count(response: Response) -> Response:
            route = str(request.url_rule) if request.url_rule else "unknown"
            seconds = time.perf_counter() - g.started
            self._requests.labels(self.service, route, response.status_code).inc()
            self._seconds.labels(self.service, route).observe(seconds)
            response.headers[REQUEST_ID] = g.request_id
            response.headers.setdefault("Cache-Control", "no-store")
            if response.status_code >= 500 or seconds > _SLOW_S:
                log.warning(
                    "slow or failed",
                    route=route,
                    status=response.status_code,
                    ms=round(seconds * 1000),
                    request_id=g.request_id,
                )
            return response

        @app.get("/metrics")
        @app.doc(hide=True)
        def prometheus() -> Response:
            return Response(generate_latest(self.registry), content_type=CONTENT_TYPE_LATEST)


class PartitionCollector(Collector):
    """What the state itself says, read at each scrape: these counts are as exact as the state."""

    def __init__(self, app: App, store: Store, topics: Topics) -> None:
        self._app = app
        self._store = store
        self._topics = topics

    def collect(self) -> Iterator[Metric]:
        service = self._app.name
        offset = GaugeMetricFamily(OFFSET.name, OFFSET.meaning, labels=OFFSET.labels)
        known = {DEAD: _counter(DEAD_LETTERS), MISPLACED: _counter(MISPLACED_KEYS), LOST: _counter(LOST_RECORDS)}
        counted = _counter(COUNTED)
        partitions = range(self._topics.widest(self._app.topics))
        for partition, snapshot in self._store.read({p: [] for p in partitions}).items():
            for topic, position in snapshot.positions.items():
                offset.add_metric([service, topic, str(partition)], position)
            for what, count in {**dict.fromkeys(known, 0), **snapshot.counters}.items():
                if what in known:
                    known[what].add_metric([service, str(partition)], count)
                else:
                    counted.add_metric([service, str(partition), what], count)
        yield from (offset, *known.values(), counted)


def _counter(definition: Definition) -> CounterMetricFamily:
    return CounterMetricFamily(definition.name, definition.meaning, labels=definition.labels)


def _positional(definition: Definition) -> tuple[str, str, tuple[str, ...]]:
    return definition.name, definition.meaning, definition.labels
