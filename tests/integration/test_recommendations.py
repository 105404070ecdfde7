"""Recommendations of real parts: fresh, spread over instances, and there while one dies or the window drops."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import urllib3
from numpy.typing import NDArray

from devkit import records
from devkit.child_process import LOCALHOST, free_port
from devkit.local_cluster import LocalCluster, answers, get
from services.events import LISTENING_EVENTS
from streamstate.state.redis import RedisStore, connect
from tests.integration.driving import Driving
from tests.integration.graphs import assert_graph_agrees, edge_count
from tests.integration.plays import PlaysWriter
from tests.waiting import until

FRESH_S = 2
MARKERS = 5
NEWCOMER = 700_001
KNOWN_TRACK = 1
PARTITIONS = 8
WINDOW = 10_000
PLAYS_A_TICK = 5_000
TICK_S, TICKS = 0.1, 60


@contextmanager
def reading(url: str, users: range, threads: int) -> Iterator[list[tuple[int, str, float]]]:
    """Ask for recommendations all the while; gives status, who answered and seconds of each request, as they come."""
    seen: list[tuple[int, str, float]] = []
    stop = threading.Event()

    def read(first: int) -> None:
        pool = urllib3.PoolManager(retries=False, timeout=10)
        while not stop.is_set():
            for user in users[first::threads]:
                started = time.monotonic()
                answer = pool.request("GET", f"{url}/v1/users/{user}/recommendations/tracks")
                seen.append((answer.status, answer.headers.get("Served-By", ""), time.monotonic() - started))
                if stop.is_set():
                    return

    readers = [threading.Thread(target=read, args=(number,)) for number in range(threads)]
    for reader in readers:
        reader.start()
    try:
        yield seen
    finally:
        stop.set()
        for reader in readers:
            reader.join()


def test_the_graph_equals_the_topic_edge_by_edge(driving: Driving) -> None:
    assert_graph_agrees(driving)


def test_every_user_gets_items_that_are_new_to_them(driving: Driving) -> None:
    for user in range(1, 200):
        profile = driving.get(f"/v1/users/{user}").json()
        tracks = driving.get(f"/v1/users/{user}/recommendations/tracks?limit=20").json()
        assert tracks["items"]
        assert {one["id"] for one in tracks["items"]}.isdisjoint(one["id"] for one in profile["topTenTracks"])
        assert profile["trackRecommendations"]


def test_an_event_can_be_walked_within_two_seconds(driving: Driving) -> None:
    """A newcomer gets popular items, and after the first play items of users with the same play."""

    def seconds(user: int) -> float:
        key, value = records.event(user, 1, 1, KNOWN_TRACK, 1_000)
        driving.out.produce(LISTENING_EVENTS, value, key)
        driving.out.flush()
        started = time.monotonic()
        for address in driving.cluster.addresses["recommendations"]:
            path = f"http://{address}/v1/users/{user}/recommendations/tracks"
            until(partial(_walked, path), 30, "the play to be walked")
        return time.monotonic() - started

    assert not _walked(f"{driving.cluster.url}/v1/users/{NEWCOMER}/recommendations/tracks")
    assert statistics.median(seconds(NEWCOMER + number) for number in range(MARKERS)) <= FRESH_S


def _walked(url: str) -> bool:
    return bool(get(url)["fallback"] is None)


def test_no_request_fails_when_an_instance_is_killed(driving: Driving) -> None:
    first, second = driving.cluster.addresses["recommendations"]
    victim = next(child for child in driving.cluster.apis if child.name == "recommendations-0")
    with reading(driving.cluster.url, range(1, 300), threads=8) as seen:
        until(lambda: len({by for _, by, _ in seen}) == 2, 30, "both instances to be asked")
        victim.kill()
        after = len(seen)
        until(lambda: len(seen) > after + 200, 30, "the other instance to go on")
        victim.start()
        victim.wait_until(lambda: answers(f"http://{first}/readyz"), timeout=60)
        again = len(seen)
        until(lambda: first in {by for _, by, _ in seen[again:]}, 30, "the instance to be asked again")
    assert {status for status, _, _ in seen} == {200}
    assert {by for _, by, _ in seen[after + 20 : after + 200]} == {second}


@pytest.fixture
def recommender(cluster: LocalCluster, tmp_path: Path) -> Iterator[tuple[str, RedisStore]]:
    """An instance with a small window over a state of its own, into which the test commits."""
    address, redis = f"{LOCALHOST}:{free_port()}", cluster.redis.url.removesuffix("0") + "3"
    settings = {"KAFKA": cluster.kafka.bootstrap, "REDIS": redis, "ADVERTISE": address, "WINDOW": str(WINDOW)}
    child = LocalCluster.api("services.recommendations", "recommender", address, tmp_path, settings)
    client = connect(redis, 10)
    child.start()
    try:
        yield address, RedisStore(client, "recommendations")
    finally:
        child.stop()
        client.close()


def test_answers_go_on_while_50000_plays_a_second_come_and_the_oldest_go(recommender: tuple[str, RedisStore]) -> None:
    address, store = recommender
    writer, draw = PlaysWriter(store, PARTITIONS, WINDOW), np.random.default_rng(1)
    writer.commit(_plays(draw))
    until(lambda: answers(f"http://{address}/readyz"), 30, "the graph to be loaded")
    with reading(f"http://{address}", range(1, 300), threads=2) as seen:
        started = time.monotonic()
        for tick in range(TICKS):
            writer.commit(_plays(draw))
            time.sleep(max(0.0, started + tick * TICK_S - time.monotonic()))
        took = time.monotonic() - started
    assert took < 1.2 * TICKS * TICK_S
    assert {status for status, _, _ in seen} == {200}
    assert statistics.median(seconds for _, _, seconds in seen) < 0.1
    # A full window keeps its size while the graph lags behind.
    until(lambda: _lags(address) == [0.0] * PARTITIONS, 30, "the graph to have every play")
    until(lambda: edge_count(address) == PARTITIONS * WINDOW, 30, "the graph to be as large as its window")


def _plays(draw: np.random.Generator) -> NDArray[np.int64]:
    return draw.integers(1, [2_000, 500, 2_000, 20_000], (PLAYS_A_TICK, 4))


def _lags(address: str) -> list[float]:
    lines = [line for line in _metrics(address) if line.startswith("recommendations_graph_lag{")]
    return [float(line.split()[-1]) for line in lines]


def _metrics(address: str) -> list[str]:
    return urllib3.request("GET", f"http://{address}/metrics", timeout=10, retries=False).data.decode().splitlines()
