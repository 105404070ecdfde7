"""Gateway, instance and Redis that reach each other by IPv6."""

import json
import shutil
from collections.abc import Iterator

import pytest
import urllib3

from devkit.child_process import LOCALHOST, Child, free_port
from services.metrics.model import APP as METRICS
from streamstate.spark.status import serve
from streamstate.state.redis import RedisStore, connect
from streamstate.testing import Driver
from tests.raw import feed_plays
from tests.serving import running, until

USER = 7


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Redis that listens at ::1 alone."""
    home, port = tmp_path_factory.mktemp("redis"), free_port()
    options = ["--bind", "::1", "--port", str(port), "--dir", str(home), "--save", ""]
    child = Child("Redis", [str(shutil.which("redis-server")), *options], home / "redis.log")
    child.start()
    until(lambda: "Ready to accept connections" in child.tail(5), 20)
    yield f"redis://[::1]:{port}/0"
    child.stop()


@pytest.fixture(scope="module")
def servers(redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """The port of the gateway, which listens everywhere, and the address of the only instance of metrics."""
    home, port, instance = tmp_path_factory.mktemp("ipv6"), free_port(), f"[::1]:{free_port()}"
    store = RedisStore(connect(redis_url, 10), METRICS.name)
    feed_plays(Driver(METRICS, store), [(USER, 1, 2, 3, 1_000)])
    store.claim(0, instance, {})
    settings = {"KAFKA": f"{LOCALHOST}:1", "REDIS": redis_url, "ADVERTISE": instance}
    own = {"LISTEN": f"*:{port}", "INSTANCES": json.dumps({"metrics": instance}), "DEADLINE_MS": "10000"}
    with (
        running("services.metrics", instance, home, settings),
        running("services.gateway", f"[::1]:{port}", home, own),
    ):
        yield port, instance


@pytest.mark.parametrize("host", ["[::1]", LOCALHOST])
def test_a_profile_is_answered_by_its_owner_at_an_address_of_ipv6(servers: tuple[int, str], host: str) -> None:
    port, _ = servers
    answer = urllib3.request("GET", f"http://{host}:{port}/v1/users/{USER}/metrics", timeout=20)
    assert (answer.status, answer.json()["eventCount"]) == (200, 1)


@pytest.mark.parametrize("host", ["[::1]", LOCALHOST])
def test_a_stream_says_how_it_is_at_all_addresses(host: str) -> None:
    port = free_port()
    serve([], port)
    assert urllib3.request("GET", f"http://{host}:{port}/livez", timeout=20).status == 200


def test_an_owner_is_named_by_its_host_and_port(servers: tuple[int, str]) -> None:
    port, instance = servers
    [view] = urllib3.request("GET", f"http://[::1]:{port}/v1/route/metrics/{USER}", timeout=20).json()["views"]
    assert view["owner"] == instance
    processors = urllib3.request("GET", f"http://{instance}/v1/metrics/processors", timeout=20).json()
    [processor] = processors["instances"]
    assert f"[{processor['host']}]:{processor['port']}" == instance
    services = urllib3.request("GET", f"http://[::1]:{port}/v1/system", timeout=20).json()["services"]
    assert services[0]["owners"][0]["instance"] == instance
