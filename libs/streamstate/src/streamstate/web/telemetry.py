"""What a process tells Prometheus, and the log line of a request. No label and no line holds a key."""

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
from streamstate.processing import DEAD, MISPLACED
from streamstate.state import Store

log = structlog.get_logger()

REQUEST_ID = "X-Request-Id"
_REQUEST_ID_FORM = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_SLOW_S = 1.0


class Telemetry:
    """The metrics of one process, labelled with its service.

    streamstate_requests_total{service, route, status}: requests answered.
    streamstate_request_seconds{service, route}: how long they took; watch the 0.99 quantile.
    streamstate_forwarded_requests_total{service}: requests that came to an instance which does not own their key; a
        steady rise says that a caller does not know the owners.
    """

    def __init__(self, service: str) -> None:
        self.service = service
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "streamstate_requests", "Requests answered", ["service", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "streamstate_request_seconds", "Seconds to answer", ["service", "route"], registry=self.registry
        )
        forwarded = Counter(
            "streamstate_forwarded_requests", "Requests passed on to the owner", ["service"], registry=self.registry
        )
        self.forwarded = forwarded.labels(service)

    def install(self, app: APIFlask) -> None:
        """Count and time every request of `app`, give it an id, and serve `/metrics`."""

        @app.before_request
        def start() -> None:
            g.started = time.perf_counter()
            given = request.headers.get(REQUEST_ID, "")
            g.request_id = given if _REQUEST_ID_FORM.fullmatch(given) else uuid.uuid4().hex

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
    """What the state itself says, read at each scrape: these counts are as exact as the state.

    streamstate_offset{service, topic, partition}: the next offset.
    streamstate_dead_letters_total, streamstate_misplaced_keys_total{service, partition}: records that could not be
        used, and keys that another partitioner placed (set `partitioner=murmur2_random` in that producer).
    """

    def __init__(self, app: App, store: Store, topics: Topics) -> None:
        self._app = app
        self._service = app.name
        self._store = store
        self._topics = topics

    def collect(self) -> Iterator[Metric]:
        offset = GaugeMetricFamily("streamstate_offset", "Next offset", labels=["service", "topic", "partition"])
        counters = {
            DEAD: CounterMetricFamily(
                "streamstate_dead_letters", "Records that could not be used", labels=["service", "partition"]
            ),
            MISPLACED: CounterMetricFamily(
                "streamstate_misplaced_keys",
                "Keys in another partition than murmur2's",
                labels=["service", "partition"],
            ),
        }
        partitions = range(self._topics.widest(self._app.topics))
        for partition, snapshot in self._store.read({p: [] for p in partitions}).items():
            for topic, position in snapshot.positions.items():
                offset.add_metric([self._service, topic, str(partition)], position)
            for name, family in counters.items():
                family.add_metric([self._service, str(partition)], snapshot.counters.get(name, 0))
        yield offset
        yield from counters.values()
