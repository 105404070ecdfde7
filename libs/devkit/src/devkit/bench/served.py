"""The recommender over HTTP: loading its graph from Redis, answering, and answering while plays pour in."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from devkit.bench import cpu, reads
from devkit.bench.plays import Int64s, Writer
from devkit.demo import say
from devkit.lab import Lab, answers
from devkit.process import LOCALHOST, Child, free_port
from services.events import LISTENING_EVENTS
from services.recommendations.live import Live
from services.recommendations.model import APP, PLAYS
from streamstate.kafka import Topics
from streamstate.redis_store import Client, RedisStore, connect
from streamstate.settings import PREFIX

COMMIT = 20_000  # plays: as many as the stream's largest, over all partitions
RATE, TICK_S = 50_000, 0.1
READ_S = 10.0

Row = tuple[str, str]


def served(lab: Lab, plays: Int64s, users: list[int]) -> list[Row]:
    """All figures over `plays` in the lab's Redis; `users` are asked for."""
    topics = Topics(lab.kafka.bootstrap)
    partitions = topics.partitions(LISTENING_EVENTS)
    window = len(plays) // partitions
    client = connect(lab.redis.url, 60)
    store = RedisStore(client, APP.name)
    say("writing the plays to Redis")
    writer = Writer(store, partitions, len(plays))
    for first in range(0, len(plays), COMMIT):
        writer.commit(plays[first : first + COMMIT])
    rows = loaded(client, store, topics, len(plays))
    with recommender(lab, window) as (child, address):
        paths = [f"/v1/users/{user}/recommendations/tracks" for user in users]
        say("asking over HTTP")
        rows += [
            ("a request over HTTP, one client", asked(child, address, paths, 1)),
            ("a request over HTTP, one client, early stopping", asked(child, address, _early(paths), 1)),
            (f"requests over HTTP, {reads.CLIENTS} clients", asked(child, address, paths, reads.CLIENTS)),
        ]
        say(f"asking while {RATE} plays a second come, and as many are dropped")
        with pouring(writer, plays) as came:
            rows.append((f"the same while {RATE:,} plays a second come", asked(child, address, paths, reads.CLIENTS)))
        rows.append(("plays a second that came meanwhile", f"{came():,.0f}"))
    return rows


def loaded(client: Client, store: RedisStore, topics: Topics, plays: int) -> list[Row]:
    """What an instance does before it is ready, its kernels' compilation aside."""
    live, started, before = Live(store, topics, plays), time.perf_counter(), time.thread_time()
    while live.step():
        pass
    seconds, used = time.perf_counter() - started, time.thread_time() - before
    held = sum(
        client.memory_usage(f"{{{APP.name}:{partition}}}:{PLAYS}", samples=0) or 0
        for partition in range(topics.partitions(LISTENING_EVENTS))
    )
    return [
        (f"loading {len(live.graph()):,} plays from Redis", f"{seconds:.1f} s, CPU {used:.1f} s"),
        ("memory in Redis, bytes a play", f"{held / plays:.1f}"),
    ]


@contextmanager
def recommender(lab: Lab, window: int) -> Iterator[tuple[Child, str]]:
    """An API instance over the lab's Redis, ready."""
    address = f"{LOCALHOST}:{free_port()}"
    settings = {"KAFKA": lab.kafka.bootstrap, "REDIS": lab.redis.url, "ADVERTISE": address, "WINDOW": str(window)}
    environment = {PREFIX + name: value for name, value in settings.items()}
    home = lab.gateway.log.parent
    child = Lab.gunicorn("services.recommendations.api:create()", "recommender", address, home, environment)
    child.start()
    try:
        child.wait_until(lambda: answers(f"http://{address}/readyz"), timeout=120)
        yield child, address
    finally:
        child.stop()


def asked(child: Child, address: str, paths: list[str], clients: int) -> str:
    """Reads for some seconds, and the server's CPU time for each."""
    before = cpu.seconds([child])
    found = reads.measure(address, paths, READ_S, clients)
    used = 1000 * (cpu.seconds([child]) - before) / (found.per_second * READ_S)
    return f"{found.per_second:,.0f} a second, p50 {found.p50_ms:.1f} ms, p99 {found.p99_ms:.1f} ms, CPU {used:.1f} ms"


@contextmanager
def pouring(writer: Writer, plays: Int64s) -> Iterator[Callable[[], float]]:
    """`RATE` of the plays a second come again; afterwards the value tells how many really came."""
    stop, counts = threading.Event(), np.zeros(2)

    def pour() -> None:
        started, some = time.monotonic(), int(RATE * TICK_S)
        while not stop.is_set():
            first = int(counts[0]) % (len(plays) - some)
            writer.commit(plays[first : first + some])
            counts[0] += some
            counts[1] = time.monotonic() - started
            time.sleep(max(0.0, started + counts[0] / RATE - time.monotonic()))

    with ThreadPoolExecutor(1) as executor:
        poured = executor.submit(pour)
        try:
            yield lambda: float(counts[0] / counts[1])
        finally:
            stop.set()
            poured.result()


def _early(paths: list[str]) -> list[str]:
    return [f"{path}?earlyStop=true" for path in paths]
