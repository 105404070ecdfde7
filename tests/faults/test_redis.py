"""Redis that dies, forgets, is emptied, is full, or loses replies: F2, F3, F4, F7 and F19 of the list of faults."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from devkit.child_process import free_port
from devkit.redis_server import Redis
from tests.faults.conftest import UnderLoad
from tests.faults.fault_report import Row
from tests.faults.fleet import Fleet
from tests.faults.losses import kill_losing_a_second
from tests.faults.proxy import Proxy
from tests.integration.driving import eventually

BACK_S = 10
REBUILT_S = 60


def client(fleet: Fleet) -> redis.Redis:
    return redis.Redis.from_url(fleet.cluster.redis.url)


def test_f2_redis_is_killed_and_its_last_second_lost(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F2", "kill -9 of Redis, with a part of what it wrote in its last second lost") as run:
        for _ in range(4):
            run.moment()
            kill_losing_a_second(fleet.cluster.redis, run.draw)
            fleet.cluster.redis.start()
            run.recover()
    assert max(run.recovered_s) <= BACK_S


def test_f3_a_replica_that_lags_takes_over(under_load: UnderLoad, fleet: Fleet, tmp_path: Path) -> None:
    primary = fleet.cluster.redis
    replica = Redis(tmp_path, free_port())
    replica.start()
    copy = redis.Redis.from_url(replica.url)
    with under_load("F3", "Redis fails over to a replica that lags, and back to what the primary had then") as run:
        copy.replicaof("127.0.0.1", str(primary.port))
        eventually(lambda: copy.info("replication").get("master_link_status") == "up", "the replica to be in step")
        run.moment()
        copy.replicaof("NO", "ONE")
        run.moment()
        primary.kill()
        copy.config_set("port", str(primary.port))
        run.recover()
        run.moment()
        replica.kill()
        primary.start()
        run.recover()


def test_f4_redis_is_emptied(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F4", "FLUSHALL; reads are refused with the progress until all is built again") as run:
        for _ in range(2):
            run.moment()
            client(fleet).flushall()
            run.recover()


def test_f7_replies_of_redis_are_lost(under_load: UnderLoad, fleet: Fleet, row: Callable[[], Row]) -> None:
    name = "metrics-0"
    usual = fleet.streams[name]
    with (
        Proxy(fleet.cluster.redis.port, every=10) as proxy,
        under_load("F7", "every tenth reply of Redis to a stream lost") as run,
    ):
        usual.stop()
        fleet.streams[name] = fleet.cluster.host(
            [f"{name}={fleet.addresses[name]}"], f"stream-{name}-proxied", REDIS=f"redis://127.0.0.1:{proxy.port}/0"
        )
        fleet.streams[name].start()
        eventually(lambda: proxy.dropped > 6, "replies to be lost", 90)
        proxy.every = 0
        run.times = proxy.dropped - 1
        run.recover()
    fleet.streams[name].stop()
    fleet.streams[name] = usual
    usual.start()
    assert row().failed == 0


@contextmanager
def full(connection: redis.Redis) -> Iterator[None]:
    """No memory left: every write is refused."""
    connection.config_set("maxmemory", int(connection.info("memory")["used_memory"]) // 2)
    try:
        yield
    finally:
        connection.config_set("maxmemory", 0)


@contextmanager
def unsafe(connection: redis.Redis) -> Iterator[None]:
    """Too few replicas: every write is refused."""
    connection.config_set("min-replicas-to-write", 1)
    try:
        yield
    finally:
        connection.config_set("min-replicas-to-write", 0)


def test_f19_redis_refuses_writes(under_load: UnderLoad, fleet: Fleet, row: Callable[[], Row]) -> None:
    with (
        under_load("F19", "Redis full (maxmemory), and without the replicas it asks for") as run,
        client(fleet) as connection,
    ):
        for refusing in (full, unsafe):
            run.moment()
            with refusing(connection):
                time.sleep(run.draw.uniform(3, 6))
            run.recover()
    assert row().failed == 0
