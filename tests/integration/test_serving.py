"""Real APIs and a real gateway over a real Redis, while Kafka is away, and while an owner hangs."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
import urllib3

from devkit.child_process import LOCALHOST, Child, free_port
from devkit.local_cluster import LocalCluster, answers
from devkit.redis_server import Redis
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from streamstate.app import App
from streamstate.keys import LONG, partition_of
from streamstate.state.redis import RedisStore, connect
from streamstate.testing import Driver
from tests.raw import feed_name, feed_plays

DATABASE, PARTITIONS, USERS = 8, 4, 40
NOWHERE = f"{LOCALHOST}:1"


@dataclass
class Instances:
    """Two instances of metrics, which share the partitions, one of names, and the gateway; there is no Kafka."""

    metrics: list[tuple[str, Child]]
    gateway: str

    def owner(self, user: int) -> Child:
        return self.metrics[partition_of(LONG.encode(user), PARTITIONS) % 2][1]

    def ask(self, user: int) -> tuple[int, float]:
        """The status, and how many seconds it took."""
        started = time.monotonic()
        found = urllib3.request("GET", f"http://{self.gateway}/v1/users/{user}/metrics", timeout=10, retries=False)
        return found.status, time.monotonic() - started


def _store(url: str, app: App) -> tuple[RedisStore, Driver]:
    store = RedisStore(connect(url, 10), app.name)
    return store, Driver(app, store, PARTITIONS)


@pytest.fixture(scope="module")
def fleet(redis_server: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instances]:
    home, url = tmp_path_factory.mktemp("fleet"), f"redis://{LOCALHOST}:{redis_server.port}/{DATABASE}"
    addresses = [f"{LOCALHOST}:{free_port()}" for _ in range(4)]
    (metrics, driver), (names, naming) = _store(url, METRICS), _store(url, NAMES)
    feed_plays(driver, [(user, 1, 2, 3, 1_000) for user in range(USERS)])
    feed_name(naming, "artists", 1, "Prince")
    for partition in range(PARTITIONS):
        metrics.claim(partition, addresses[partition % 2], {})
        names.claim(partition, addresses[2], {})
    instances = {"metrics": ",".join(addresses[:2]), "names": addresses[2], "recommendations": NOWHERE}
    of_gateway = {"INSTANCES": json.dumps(instances)}
    children: list[Child] = []
    try:
        # The gateway starts last, because the gateway avoids an instance without answer for a while.
        for service, at in zip(("metrics", "metrics", "names", "gateway"), addresses, strict=True):
            own = of_gateway if service == "gateway" else {"KAFKA": NOWHERE, "REDIS": url, "ADVERTISE": at}
            children.append(_started(service, at, home, own))
            children[-1].wait_until(partial(answers, f"http://{at}/readyz"), timeout=30)
        yield Instances(list(zip(addresses[:2], children[:2], strict=True)), addresses[3])
    finally:
        for child in children:
            child.stop()


def _started(service: str, address: str, home: Path, settings: dict[str, str]) -> Child:
    name = f"{service}-{address.partition(':')[2]}"
    child = LocalCluster.api(f"services.{service}", name, address, home, settings)
    child.start()
    return child


def test_without_kafka_everything_is_answered(fleet: Instances) -> None:
    assert {fleet.ask(user)[0] for user in range(USERS)} == {200}
    assert fleet.ask(4_711)[0] == 404
    found = urllib3.request("GET", f"http://{fleet.gateway}/v1/users/1/metrics", timeout=10).json()
    assert found["topTenArtists"] == [{"id": 1, "name": "Prince", "countPlays": 1}]
    assert answers(f"http://{fleet.gateway}/v1/metrics/processors")


def test_a_service_that_is_not_there_costs_only_its_own_part(fleet: Instances) -> None:
    found = urllib3.request("GET", f"http://{fleet.gateway}/v1/users/1", timeout=10).json()
    assert found["eventCount"] == 1
    assert found["warnings"] == ["recommendations: no instance of recommendations answers; ask again in 1 s"]


@pytest.fixture
def hanging(fleet: Instances) -> Iterator[int]:
    """A user whose owner hangs."""
    processes = [process.pid for process in psutil.Process(fleet.owner(1).pid).children()]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    yield 1
    for pid in processes:
        os.kill(pid, signal.SIGCONT)


def test_an_owner_that_hangs_costs_no_read_and_slows_only_the_first_ones(fleet: Instances, hanging: int) -> None:
    timed: list[tuple[float, int, float]] = []
    started = time.monotonic()

    def read() -> None:
        while time.monotonic() < started + 4:
            asked = time.monotonic()
            timed.append((asked - started, *fleet.ask(hanging)))

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert {status for _, status, _ in timed} == {200}
    first = [seconds for asked, _, seconds in timed if asked < 0.1]
    later = [seconds for asked, _, seconds in timed if asked > 1]
    # The deadline is 2 s; the owner gets less than half, and later requests do not wait for the owner at all.
    assert max(first) < 2
    assert len(later) > 8
    assert sorted(later)[len(later) // 2] < min(first) / 2


def test_an_owner_that_answers_again_is_asked_again(fleet: Instances) -> None:
    owner = next(at for at, child in fleet.metrics if child is fleet.owner(1))

    def served_by() -> str:
        found = urllib3.request("GET", f"http://{fleet.gateway}/v1/users/1/metrics", timeout=10)
        return found.headers["Served-By"]

    fleet.owner(1).wait_until(lambda: served_by() == owner, timeout=30)
