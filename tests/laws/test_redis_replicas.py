"""An API that reads from the replicas which Sentinels know: an answer may be behind, and says so."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from werkzeug.test import Client, TestResponse

from services.metrics.model import APP
from streamstate import bootstrap
from streamstate.settings import ApiSettings
from streamstate.testing import Driver, FixedTopics
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.http.request import POSITION
from tests.raw import feed_plays
from tests.redis_servers import Watched, say, watched
from tests.serving import Loop
from tests.waiting import until, until_equal

TOPIC = "listening-events"
DRIVER = "driver:1"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path) as servers:
        yield servers


@pytest.fixture
def topics() -> FixedTopics:
    return FixedTopics({TOPIC: 1})


@pytest.fixture
def driver(servers: Watched) -> Driver:
    """Has written one play of the user 1."""
    driver = Driver(APP, bootstrap.store(servers.url, 5.0, APP.name), 1)
    feed_plays(driver, [(1, 1, 1, 1, 1_000)])
    until_equal(lambda: say(servers.replica_port, "HGET {metrics:0} offset:listening-events"), "1")
    return driver


@pytest.fixture
def api(servers: Watched, topics: FixedTopics) -> Iterator[Client]:
    given: dict[str, Any] = {"redis": servers.url, "redis_replicas": True, "advertise": DRIVER, "access": "off"}
    settings = ApiSettings(**given)
    loop, freshness = Loop(), Freshness(topics, APP.topics)
    yield Client(loop.wsgi(build(APP, settings, bootstrap.reads(settings, APP), freshness)))
    loop.stop()


def ask(api: Client, **demands: str) -> TestResponse:
    """For the user 1, within half a second."""
    headers = {name.replace("_", "-"): text for name, text in demands.items()}
    return api.get("/v1/users/1/metrics", headers={"X-Deadline-Ms": "500", **headers})


def plays(api: Client) -> int | None:
    answer = ask(api)
    return answer.get_json()["eventCount"] if answer.status_code == 200 else None


def cut_off(replica: int) -> None:
    """The primary requires no password, and refuses clients with a password."""
    say(replica, "CONFIG SET masterauth none")
    say(replica, "CLIENT KILL TYPE master")


def test_a_replica_that_is_behind_says_so_and_meets_no_demand_that_it_does_not(
    servers: Watched, driver: Driver, topics: FixedTopics, api: Client
) -> None:
    cut_off(servers.replica_port)
    feed_plays(driver, [(1, 1, 1, 1, 2_000)])
    topics.written[TOPIC, 0] = 2
    behind = ask(api)
    assert (behind.get_json()["eventCount"], behind.headers[POSITION]) == (1, f"{TOPIC}:0=1")
    for demand in ({"X_Min_Position": f"{TOPIC}:0=2"}, {"X_Max_Staleness": "1000"}):
        refused = ask(api, **demand)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    say(servers.replica_port, "CONFIG SET masterauth ")
    until_equal(lambda: plays(api), 2)
    met = ask(api, X_Min_Position=f"{TOPIC}:0=2")
    assert (met.get_json()["eventCount"], met.headers[POSITION]) == (2, f"{TOPIC}:0=2")
    feed_plays(driver, [(1, 1, 1, 1, 3_000)])
    assert ask(api, X_Min_Position=f"{TOPIC}:0=3").get_json()["eventCount"] == 3


@pytest.mark.usefixtures("driver")
def test_a_replica_that_has_nothing_yet_is_not_taken_for_a_state_without_users(servers: Watched, api: Client) -> None:
    assert plays(api) == 1
    cut_off(servers.replica_port)
    say(servers.replica_port, "CONFIG SET replica-read-only no")
    say(servers.replica_port, "FLUSHALL")
    assert ask(api).status_code == 503


def test_a_replica_that_serves_no_old_data_is_not_read_while_it_is_cut_off(
    servers: Watched, driver: Driver, api: Client
) -> None:
    assert plays(api) == 1
    say(servers.replica_port, "CONFIG SET replica-serve-stale-data no")
    cut_off(servers.replica_port)
    feed_plays(driver, [(1, 1, 1, 1, 2_000)])
    until_equal(lambda: plays(api), 2)


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_the_primary_is_read_while_no_replica_answers(servers: Watched, api: Client, fault: signal.Signals) -> None:
    assert plays(api) == 1
    os.kill(servers.replica.pid, fault)
    # A hanging primary gets requests until the Sentinels declare it down.
    until_equal(lambda: plays(api), 1)


@pytest.mark.usefixtures("driver")
def test_a_replica_is_read_while_there_is_no_primary(servers: Watched, api: Client) -> None:
    servers.primary.kill()
    assert plays(api) == 1
    until(servers.promoted)
    until_equal(lambda: plays(api), 1)


def test_the_primary_is_read_while_the_replica_loads_all_of_it_anew(
    servers: Watched, driver: Driver, api: Client
) -> None:
    assert plays(api) == 1
    cut_off(servers.replica_port)
    feed_plays(driver, [(1, 1, 1, 1, 2_000)])
    say(servers.primary_port, "CONFIG SET rdbcompression no repl-backlog-size 16384")
    with redis.Redis(port=servers.primary_port) as primary:
        # More than the backlog has, so that the replica needs everything; it takes 6 s to load.
        primary.mset({f"filling:{number}": "x" * 1_000 for number in range(300)})
    say(servers.replica_port, "CONFIG SET key-load-delay 20000 loading-process-events-interval-bytes 1024")
    say(servers.replica_port, "CONFIG SET masterauth ")
    until(lambda: loading(servers))
    until_equal(lambda: plays(api), 2)
    assert loading(servers)


def loading(servers: Watched) -> bool:
    return "loading:1" in say(servers.replica_port, "INFO persistence")
