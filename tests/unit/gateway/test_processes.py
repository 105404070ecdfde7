"""Gateway, instance and Redis as processes: over IPv6, behind nginx, and traced."""

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
from urllib3.exceptions import HTTPError

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.servers.child_process import LOCALHOST, Child, free_port, listeners
from devkit.servers.redis import Redis
from services.archive.settings import ArchiverSettings
from services.metrics.model import APP as METRICS
from streamstate.deployment.connections import StatusSettings
from streamstate.settings import StreamSettings
from streamstate.spark.status import serve
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.testing import Driver
from tests.collector import Collector, collecting
from tests.raw import feed_plays
from tests.serving import new_address, running
from tests.waiting import PATIENCE_S, REQUEST_S, until

LISTENER = 7


@contextmanager
def serving_a_play(
    user: int, redis: str, instance: str, gateway: str, home: Path, environment: Mapping[str, str], **of_gateway: str
) -> Iterator[None]:
    """A gateway before one instance of metrics that knows a play of `user`; there is no Kafka."""
    store = RedisStore(connect(redis, 10), METRICS.name)
    feed_plays(Driver(METRICS, store), [(user, 1, 2, 3, 1_000)])
    store.claim(0, instance, {})
    settings = {"KAFKA": f"{LOCALHOST}:1", "REDIS": redis, "ADVERTISE": instance}
    own = {"INSTANCES": json.dumps({"metrics": instance}), "DEADLINE_MS": "10000", **of_gateway}
    with (
        running("services.metrics", instance, home, settings, environment=environment),
        running("services.gateway", gateway, home, own, environment=environment),
    ):
        yield


# Over IPv6 alone.
@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis that listens at ::1 alone."""
    home, port = tmp_path_factory.mktemp("redis"), free_port()
    options = ["--bind", "::1", "--port", str(port), "--dir", str(home), "--save", ""]
    child = Child("Redis", [str(shutil.which("redis-server")), *options], home / "redis.log")
    child.start()
    until(lambda: "Ready to accept connections" in child.tail(5))
    yield f"redis://[::1]:{port}/0"
    child.stop()


@pytest.fixture(scope="module")
def by_ipv6(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """The port of the gateway, which listens everywhere, and the address of the only instance of metrics."""
    home, port, instance = tmp_path_factory.mktemp("ipv6"), free_port(), f"[::1]:{free_port()}"
    with serving_a_play(LISTENER, redis_url, instance, f"[::1]:{port}", home, {}, LISTEN=f"*:{port}"):
        yield port, instance


@pytest.mark.parametrize("host", ["[::1]", LOCALHOST])
def test_a_profile_is_answered_by_its_owner_at_an_address_of_ipv6(by_ipv6: tuple[int, str], host: str) -> None:
    port, _ = by_ipv6
    answer = urllib3.request("GET", f"http://{host}:{port}/v1/users/{LISTENER}/metrics", timeout=REQUEST_S)
    assert (answer.status, answer.json()["eventCount"]) == (200, 1)


@pytest.mark.parametrize("host", ["[::1]", LOCALHOST])
def test_a_stream_says_how_it_is_at_all_addresses_if_asked_to(host: str) -> None:
    settings = StreamSettings.model_validate({"status_host": "*", "status_port": free_port()})
    serve([], settings.status_address)
    assert urllib3.request("GET", f"http://{host}:{settings.status_port}/livez", timeout=REQUEST_S).status == 200


@pytest.mark.parametrize("kind", [StreamSettings, ArchiverSettings])
def test_by_default_a_process_says_how_it_is_on_its_machine_only(kind: type[StatusSettings]) -> None:
    settings = kind.model_validate({"status_port": free_port()})
    serve([], settings.status_address)
    assert urllib3.request("GET", f"http://{LOCALHOST}:{settings.status_port}/livez", timeout=REQUEST_S).status == 200
    with pytest.raises(HTTPError):
        urllib3.request("GET", f"http://[::1]:{settings.status_port}/livez", retries=False)
    assert [address for _, address, port in listeners() if port == settings.status_port] == [LOCALHOST]


def test_an_owner_is_named_by_its_host_and_port(by_ipv6: tuple[int, str]) -> None:
    port, instance = by_ipv6
    [view] = urllib3.request("GET", f"http://[::1]:{port}/v1/route/metrics/{LISTENER}", timeout=REQUEST_S).json()[
        "views"
    ]
    assert view["owner"] == instance
    processors = urllib3.request("GET", f"http://{instance}/v1/metrics/processors", timeout=REQUEST_S).json()
    [processor] = processors["instances"]
    assert f"[{processor['host']}]:{processor['port']}" == instance
    services = urllib3.request("GET", f"http://[::1]:{port}/v1/system", timeout=REQUEST_S).json()["services"]
    assert services[0]["owners"][0]["instance"] == instance


# Traces of requests, from a real gateway to a real Redis.

DATABASE, TRACED = 9, 987_654_321
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OFF = """
import sys
from services.gateway.api import build
from services.gateway.settings import AccessSettings, GatewaySettings
from streamstate.settings import load
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
def traced_gateway(
    collector: Collector, redis_server: Redis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a traced_gateway before one instance of metrics, both with traces; there is no Kafka."""
    home, url = tmp_path_factory.mktemp("traces"), f"redis://{LOCALHOST}:{redis_server.port}/{DATABASE}"
    instance, traced_gateway, sending = new_address(), new_address(), collector.environment
    with serving_a_play(TRACED, url, instance, traced_gateway, home, sending):
        yield traced_gateway


def test_a_request_is_traced_from_the_caller_to_redis(collector: Collector, traced_gateway: str) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    answer = urllib3.request(
        "GET", f"http://{traced_gateway}/v1/users/{TRACED}/metrics", headers=headers, timeout=REQUEST_S
    )
    assert answer.status == 200
    until(lambda: len([span for span in collector.spans if span.trace == TRACE]) >= 4)
    (asked,) = collector.named("gateway", "HTTP /v1/users/<key>/metrics")
    (called,) = collector.named("gateway", "GET")
    (answered,) = collector.named("metrics", "HTTP /v1/users/<key>/metrics")
    (read,) = [span for span in collector.named("metrics", "MULTI") if span.parent == answered.id]
    assert {span.trace for span in (asked, called, answered, read)} == {TRACE}
    assert (asked.parent, called.parent, answered.parent) == (CALLER, asked.id, called.id)
    assert asked.attributes["http.response.status_code"] == answered.attributes["http.response.status_code"] == 200
    assert read.attributes["db.system.name"] == "redis"


def test_a_failure_is_named_and_nobody_is(collector: Collector, traced_gateway: str) -> None:
    answer = urllib3.request(
        "GET", f"http://{traced_gateway}/v1/users/{TRACED}x/metrics?key={TRACED}", timeout=REQUEST_S
    )
    assert answer.status == 400
    until(lambda: any(span.attributes.get("http.response.status_code") == 400 for span in collector.spans))
    assert str(TRACED) not in str(collector.spans)


def test_probes_and_maps_make_no_spans(collector: Collector, traced_gateway: str) -> None:
    assert answers(f"http://{traced_gateway}/livez")
    routes = {span.attributes["http.route"] for span in collector.spans if "http.route" in span.attributes}
    assert routes == {"/v1/users/<key>/metrics"}


def test_without_a_collector_nothing_that_makes_spans_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", OFF], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_protocol_that_there_is_not_ends_the_process(collector: Collector, tmp_path: Path) -> None:
    own = {**collector.environment, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    child = LocalCluster.api("services.gateway", "gateway", f"{LOCALHOST}:{free_port()}", tmp_path, {}, own)
    child.start()
    until(lambda: not child.alive)
    assert "OTEL_EXPORTER_OTLP_PROTOCOL can only be http/protobuf" in child.log.read_text()


# The gateway behind Debian's nginx: events arrive at once, and the page arrives unchanged.

CONFIGURATION = """
daemon off;
pid {home}/pid;
error_log {home}/error.log;
events {{}}
http {{
    include /etc/nginx/mime.types;
    access_log {home}/access.log;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    gzip on;
    gzip_proxied any;
    gzip_types *;
    server {{
        listen {address};
        location / {{ proxy_pass http://{gateway}; }}
    }}
}}
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of nginx and of the gateway behind it."""
    home = tmp_path_factory.mktemp("proxies")
    address, gateway, instance = (new_address() for _ in range(3))
    (home / "nginx.conf").write_text(CONFIGURATION.format(home=home, address=address, gateway=gateway))
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin") or "nginx"
    command = [nginx, "-c", str(home / "nginx.conf"), "-e", str(home / "error.log")]
    with (
        running("tests.unit.web", instance, home, {"ADVERTISE": instance}),
        running("services.gateway", gateway, home, {"INSTANCES": json.dumps({"tally": instance})}),
    ):
        child = Child("nginx", command, home / "nginx.log", {})
        child.start()
        child.wait_until(lambda: answers(f"http://{address}/livez"), timeout=PATIENCE_S)
        yield address, gateway
        child.stop()


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_an_event_comes_whole_and_at_once(proxy: tuple[str, str], coding: str) -> None:
    with urllib3.PoolManager() as pool:
        headers = {"Accept-Encoding": coding}
        url = f"http://{proxy[0]}/v1/system/stream"
        response = pool.request("GET", url, headers=headers, preload_content=False, timeout=REQUEST_S, retries=False)
        read = b""
        while b"data: " not in read or not read.endswith(b"\n\n"):
            read += response.read1(65_536)
        response.close()
    event = read[read.index(b"event: ") :].split(b"\n\n")[0]
    assert json.loads(event.partition(b"data: ")[2])
    assert "no-transform" in response.headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/v1/numbers/7", "/v1/words/a%2Fb", "/v1/words/a/b"])
def test_what_the_gateway_answers_is_the_same_behind_it(proxy: tuple[str, str], path: str) -> None:
    behind, direct = (urllib3.request("GET", f"http://{at}{path}", timeout=REQUEST_S) for at in proxy)
    assert (behind.status, behind.data) == (direct.status, direct.data)
    zipped = subprocess.run(
        ["curl", "-s", "-H", "Accept-Encoding: gzip", f"http://{proxy[0]}{path}"], capture_output=True, check=True
    ).stdout
    assert zipped == direct.data or gzip.decompress(zipped) == direct.data


@pytest.mark.parametrize("at", [0, 1], ids=["nginx", "gateway"])
def test_a_key_with_a_slash_is_asked_for_where_it_is(proxy: tuple[str, str], at: int) -> None:
    for path, kind in (("a%2Fb", "unknown-key"), ("a/b", "not-found")):
        answer = urllib3.request("GET", f"http://{proxy[at]}/v1/words/{path}", timeout=REQUEST_S)
        assert (answer.status, answer.json()["type"]) == (404, f"urn:streamstate:problem:{kind}")
