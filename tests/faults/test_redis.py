"""Redis that dies, forgets, is emptied, is full, corrupt, or loses replies: F2, F3, F4, F7, F19 and F27 of the list."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import urllib3

from devkit.cluster.local_cluster import get
from devkit.events import records
from devkit.servers.child_process import free_port
from devkit.servers.redis import Redis
from streamstate.kafka.producer import producer, send_all
from tests.faults.conftest import USERS, UnderLoad
from tests.faults.fleet import KNOWN, Fleet, recounted
from tests.faults.harm import Proxy, kill_losing_a_second
from tests.waiting import until

BACK_S = 10


def client(fleet: Fleet) -> redis.Redis:
    return redis.Redis.from_url(fleet.cluster.redis.url)


@pytest.mark.quick
def test_f2_redis_is_killed_and_its_last_second_lost(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F2", "kill -9 of Redis, part of its last second lost") as run:
        for _ in run.seeds():
            run.moment()
            kill_losing_a_second(fleet.cluster.redis, run.draw)
            fleet.cluster.redis.start()
            run.recover(fleet)
    run.require_recovered(BACK_S)


def test_f3_a_replica_that_lags_takes_over(under_load: UnderLoad, fleet: Fleet, tmp_path: Path) -> None:
    primary = fleet.cluster.redis
    with under_load("F3", "Redis fails over to a lagging replica, and back to the old state of the primary") as run:
        for seed in run.seeds():
            replica = Redis(tmp_path / str(seed), free_port())
            replica.start()
            copy = redis.Redis.from_url(replica.url)
            copy.replicaof("127.0.0.1", str(primary.port))
            until(partial(in_step, copy), "the replica to be in step")
            run.moment()
            copy.replicaof("NO", "ONE")
            run.moment()
            primary.kill()
            copy.config_set("port", str(primary.port))
            run.recover(fleet)
            run.moment()
            replica.kill()
            primary.start()
            run.recover(fleet)


def in_step(replica: redis.Redis) -> bool:
    return bool(replica.info("replication").get("master_link_status") == "up")


@pytest.mark.quick
def test_f4_redis_is_emptied(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F4", "FLUSHALL; reads are refused with the progress until the end of the build") as run:
        for _ in run.seeds():
            run.moment()
            client(fleet).flushall()
            run.recover(fleet)


def test_f7_replies_of_redis_are_lost(under_load: UnderLoad, fleet: Fleet) -> None:
    name = "metrics-0"
    usual, dropped = fleet.streams[name], 0
    with (
        Proxy(fleet.cluster.redis.port) as proxy,
        under_load("F7", "about every tenth reply of Redis to a stream lost") as run,
    ):
        usual.stop()
        fleet.streams[name] = fleet.cluster.host(
            [f"{name}={fleet.addresses[name]}"], f"stream-{name}-proxied", REDIS=f"redis://127.0.0.1:{proxy.port}/0"
        )
        fleet.streams[name].start()
        for _ in run.seeds():
            proxy.dropped, proxy.every = 0, run.draw.randint(5, 15)
            until(lambda: proxy.dropped >= 3, "replies to be lost")
            dropped += proxy.dropped
            proxy.every = 0
            run.recover(fleet)
        run.times = dropped
    fleet.streams[name].stop()
    fleet.streams[name] = usual
    usual.start()
    assert run.reads.failed == 0


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


def test_f19_redis_refuses_writes(under_load: UnderLoad, fleet: Fleet) -> None:
    with (
        under_load("F19", "Redis full (maxmemory), and without required replicas") as run,
        client(fleet) as connection,
    ):
        for _ in run.seeds():
            for refusing in (full, unsafe):
                run.moment()
                with refusing(connection):
                    time.sleep(run.draw.uniform(3, 6))
                run.recover(fleet)
    assert run.reads.failed == 0


Mend = Callable[[], object]


def spoil_number(connection: Any, user: bytes) -> tuple[bytes, Mend]:
    """A digit of the count of plays."""
    count = connection.hget(user, "#")
    connection.hset(user, "#", b"x" + count[1:])
    return user, lambda: connection.hset(user, "#", count)


def spoil_member(connection: Any, user: bytes) -> tuple[bytes, Mend]:
    """A digit of the number of the artist who was played most."""
    chart = user.replace(b":numbers:", b":artists.values:")
    [(member, score)] = connection.zrange(chart, 0, 0, withscores=True)
    wrong = member[:-1] + b"x"
    connection.zrem(chart, member)
    connection.zadd(chart, {wrong: score})
    return chart, lambda: (connection.zrem(chart, wrong), connection.zadd(chart, {member: score}))


def test_f27_a_byte_of_a_value_is_wrong(under_load: UnderLoad, fleet: Fleet) -> None:
    """Only verify finds a changed digit."""
    with (
        under_load("F27", "a byte of a user's value corrupted: reads fail, verify names the key") as run,
        client(fleet) as connection,
    ):
        for _ in run.seeds():
            for spoil in (spoil_number, spoil_member):
                user = run.draw.randrange(KNOWN + 1, USERS + 1)
                path = f"{fleet.url}/v1/users/{user}/metrics"
                count = get(path)["eventCount"]
                [key] = connection.scan_iter(f"{{metrics:*}}:numbers:{user}", count=10_000)
                spoilt, mend = spoil(connection, key)
                answer = urllib3.request("GET", path, timeout=10)
                assert (answer.status, answer.headers["Content-Type"]) == (500, "application/problem+json")
                [report] = recounted(fleet.cluster.settings, "metrics")
                assert [difference.place for difference in report.differences] == [spoilt.decode()]
                # A play must not make a number of what is none.
                send_all(producer(fleet.bootstrap), [(fleet.topic, *records.event(user, 1, 1, 1, 1), [])])
                run.moment()
                mend()
                run.recover(fleet)
                assert get(path)["eventCount"] == count + 1
