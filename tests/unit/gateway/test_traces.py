"""Traces of requests, from a real gateway to a real Redis."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from devkit.child_process import LOCALHOST, free_port
from devkit.local_cluster import LocalCluster, answers
from devkit.redis_server import Redis
from services.metrics.model import APP as METRICS
from streamstate.state.redis import RedisStore, connect
from streamstate.testing import Driver
from tests.collector import Collector, collecting
from tests.raw import feed_plays
from tests.serving import new_address, running, until

DATABASE, USER = 9, 987_654_321
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OFF = """
import sys
from services.gateway.api import build
from services.gateway.settings import AccessSettings
from streamstate.settings import GatewaySettings, load
build(load(GatewaySettings), {}, load(AccessSettings))
import streamstate.spark.query, streamstate.web.api
# redis-py imports the metrics of OpenTelemetry where they are installed.
assert not [name for name in sys.modules if name.startswith(("opentelemetry.sdk.trace", "opentelemetry.exporter"))]
"""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def gateway(collector: Collector, redis_server: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway before one instance of metrics, both with traces; there is no Kafka."""
    home, url = tmp_path_factory.mktemp("traces"), f"redis://{LOCALHOST}:{redis_server.port}/{DATABASE}"
    instance, gateway, sending = new_address(), new_address(), collector.environment
    store = RedisStore(connect(url, 10), METRICS.name)
    feed_plays(Driver(METRICS, store), [(USER, 1, 2, 3, 1_000)])
    store.claim(0, instance, {})
    settings = {"KAFKA": f"{LOCALHOST}:1", "REDIS": url, "ADVERTISE": instance}
    own = {"INSTANCES": json.dumps({"metrics": instance}), "DEADLINE_MS": "10000"}
    with (
        running("services.metrics", instance, home, settings, environment=sending),
        running("services.gateway", gateway, home, own, environment=sending),
    ):
        yield gateway


def test_a_request_is_traced_from_the_caller_to_redis(collector: Collector, gateway: str) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    answer = urllib3.request("GET", f"http://{gateway}/v1/users/{USER}/metrics", headers=headers, timeout=20)
    assert answer.status == 200
    until(lambda: len([span for span in collector.spans if span.trace == TRACE]) >= 4, 20)
    (asked,) = collector.named("gateway", "HTTP /v1/users/<key>/metrics")
    (called,) = collector.named("gateway", "GET")
    (answered,) = collector.named("metrics", "HTTP /v1/users/<key>/metrics")
    (read,) = [span for span in collector.named("metrics", "MULTI") if span.parent == answered.id]
    assert {span.trace for span in (asked, called, answered, read)} == {TRACE}
    assert (asked.parent, called.parent, answered.parent) == (CALLER, asked.id, called.id)
    assert asked.attributes["http.response.status_code"] == answered.attributes["http.response.status_code"] == 200
    assert read.attributes["db.system.name"] == "redis"


def test_a_failure_is_named_and_nobody_is(collector: Collector, gateway: str) -> None:
    answer = urllib3.request("GET", f"http://{gateway}/v1/users/{USER}x/metrics?key={USER}", timeout=20)
    assert answer.status == 400
    until(lambda: any(span.attributes.get("http.response.status_code") == 400 for span in collector.spans), 20)
    assert str(USER) not in str(collector.spans)


def test_probes_and_maps_make_no_spans(collector: Collector, gateway: str) -> None:
    assert answers(f"http://{gateway}/livez")
    routes = {span.attributes["http.route"] for span in collector.spans if "http.route" in span.attributes}
    assert routes == {"/v1/users/<key>/metrics"}


def test_without_a_collector_nothing_that_makes_spans_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", OFF], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_protocol_that_there_is_not_ends_the_process(collector: Collector, tmp_path: Path) -> None:
    own = {**collector.environment, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    child = LocalCluster.api("services.gateway", "gateway", f"{LOCALHOST}:{free_port()}", tmp_path, {}, own)
    child.start()
    until(lambda: not child.alive, 30)
    assert "OTEL_EXPORTER_OTLP_PROTOCOL can only be http/protobuf" in child.log.read_text()
