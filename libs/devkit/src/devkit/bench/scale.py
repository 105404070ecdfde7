"""What grows with size: a graph of very many plays in this process, and a topic of very many partitions."""

import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import numpy as np

from devkit import topics
from devkit.bench import cpu
from devkit.bench.data import Data
from devkit.bench.exact import listening
from devkit.bench.plays import with_homes
from devkit.bench.recommendations import ASKED, BATCH, Row, cpu_s
from devkit.child_process import Child, free_port
from devkit.demo import CACHE, say
from devkit.feed import send_events
from devkit.local_cluster import LocalCluster, Plan
from services.events import KINDS, LISTENING_EVENTS
from services.metrics.model import APP
from services.recommendations.graph import Graph
from services.recommendations.live import warm_up
from services.recommendations.salsa import recommend
from streamstate import bootstrap
from streamstate.kafka.producer import producer
from streamstate.spark import jars
from streamstate.state.store import Snapshot, Store

USERS, TRACKS, SLICE = 1_000_000, 1_000_000, 5_000_000
PARTITIONS, EVENTS = 1_024, 200_000
IDLE_S = 20
_LONGEST_S = 600


def graph(plays: int) -> list[Row]:
    """A graph of `plays` of a million users and tracks, and its walks."""
    warm_up()
    whole, taken = Graph(KINDS, plays), 0.0
    for number in range(-(-plays // SLICE)):
        rows = with_homes(listening(number, USERS, TRACKS, min(SLICE, plays - number * SLICE)))
        for first in range(0, len(rows), BATCH):
            taken += cpu_s(partial(whole.append, rows[first : first + BATCH]))
        say(f"a graph of {(number + 1) * SLICE:,} plays")
    view, users = whole.view("tracks"), rows[:ASKED, 0].tolist()
    times = [1000 * cpu_s(partial(recommend, view, user)) for user in users]
    return [
        ("plays in the graph", f"{len(whole):,}"),
        ("its memory", f"{whole.nbytes / 1e9:.2f} GB"),
        ("taking them in, CPU", f"{taken:.0f} s"),
        ("1,000 walks of 100 steps, CPU", f"p50 {np.median(times):.2f} ms, p99 {np.percentile(times, 99):.2f} ms"),
    ]


def partitions(home: Path, data: Data) -> list[Row]:
    """Two instances of metrics over a topic of `PARTITIONS`."""
    ports = (free_port(), free_port(), free_port())
    cluster = LocalCluster(Plan(home, CACHE, *ports, {APP.name: 2}, [APP.name]), say)
    instances = [
        cluster.host([f"{APP.name}-{number}={address}"], f"stream-{number}")
        for number, address in enumerate(cluster.addresses[APP.name])
    ]
    try:
        jars.fetch(CACHE / "spark")
        cluster.kafka.start()
        topics.create(cluster.kafka.bootstrap, {LISTENING_EVENTS: {}}, PARTITIONS)
        topics.create(cluster.kafka.bootstrap, {APP.dead_letters: {}})
        cluster.redis.start()
        return _moved(cluster, data, *instances)
    finally:
        for child in (*instances, cluster.redis, cluster.kafka):
            child.stop()


def _moved(cluster: LocalCluster, data: Data, first: Child, second: Child) -> list[Row]:
    store = bootstrap.store(cluster.redis.url, 60, APP.name)
    alone, both = cluster.addresses[APP.name][:1], cluster.addresses[APP.name]
    claimed = _seconds(first, lambda: _owners(store) == set(alone))
    say(f"{PARTITIONS:,} partitions are claimed; sending {EVENTS:,} events")
    send_events(producer(cluster.kafka.bootstrap), data.current_events(EVENTS))
    folded = _seconds(first, lambda: _folded(store) == EVENTS)
    meter = cpu.Meter({"stream": first.pid, "Redis": cluster.redis.pid, "Kafka": cluster.kafka.pid})
    time.sleep(IDLE_S)
    idle = meter.read()
    shared = _seconds(second, lambda: _owners(store) == set(both))
    started = time.perf_counter()
    _owners(store)
    read_ms = 1000 * (time.perf_counter() - started)
    return [
        (f"{PARTITIONS:,} partitions: claimed after the start of the stream", f"{claimed:.1f} s"),
        (f"{EVENTS:,} events, sent at once: folded after", f"{folded:.1f} s"),
        ("cores without events", ", ".join(f"{name} {idle.cores(name):.2f}" for name in idle.cpu)),
        ("a second instance owns its part after its start", f"{shared:.1f} s"),
        ("the owners and positions of all in one read", f"{read_ms:.1f} ms"),
    ]


def _seconds(child: Child, reached: Callable[[], bool]) -> float:
    """Seconds until `reached`, from the start of `child` if it was not started."""
    started = time.monotonic()
    if not child.alive:
        child.start()
    child.wait_until(reached, _LONGEST_S)
    return time.monotonic() - started


def _all(store: Store) -> Collection[Snapshot]:
    return store.read({partition: [] for partition in range(PARTITIONS)}).values()


def _owners(store: Store) -> set[str | None]:
    return {snapshot.owner for snapshot in _all(store)}


def _folded(store: Store) -> int:
    return sum(sum(snapshot.positions.values()) for snapshot in _all(store))
