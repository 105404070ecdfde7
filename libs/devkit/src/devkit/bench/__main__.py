"""Runs all measurements on a fresh lab and writes the table."""

import itertools
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis

from devkit import DevkitError, feed, generator
from devkit.bench import cpu, freshness, reads
from devkit.demo import CACHE, say
from devkit.lab import Lab, Plan, answers
from devkit.process import LOCALHOST, free_port
from devkit.records import Event
from services.events import KINDS
from services.metrics.model import APP
from services.verify import verify
from streamstate.kafka import producer
from streamstate.redis_store import RedisStore, connect

SEED, ARTISTS, USERS, EVENTS = 1, 10_000, 50_000, 1_000_000
READ_S, ROUNDS = 5.0, 3
PARTITIONS = 8
WARM_S = 10
REPORT = Path("docs/bench.md")

HEAD = f"""# Figures

Written by `make bench`: {EVENTS:,} seeded events of {USERS:,} users, 8 partitions, everything on one machine.
CPU seconds are those of the Spark driver with its JVM, the Python workers and Redis.
Every key was held against a recount.
"""

Row = tuple[str, str]


def main() -> None:
    """Measure and write `REPORT`. Raises `DevkitError` when a state is not exact."""
    with tempfile.TemporaryDirectory() as home:
        plan = Plan(Path(home), CACHE, free_port(), free_port(), free_port())
        lab = Lab(plan, say)
        try:
            lab.start_servers()
            rows = measure(lab)
        finally:
            lab.stop()
    table = "\n".join(["| what | figure |", "| --- | --- |", *(f"| {what} | {figure} |" for what, figure in rows)])
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(f"{HEAD}\n{table}\n")
    sys.stdout.write(f"{table}\n")


def measure(lab: Lab) -> list[Row]:
    """Everything, in this order: each run builds on the state of the one before."""
    catalogue = generator.Catalogue.make(SEED, ARTISTS)
    clock = generator.backlog(EVENTS, 30 * 86_400_000, lambda: 1_750_000_000_000)
    events = generator.events(catalogue, SEED, USERS, clock, broken=0)
    say(f"sending {EVENTS} events of {USERS} users")
    feed.send_events(producer(lab.kafka.bootstrap), itertools.islice(events, EVENTS))
    before = used_memory(lab)
    rows = ingest(lab)
    held = used_memory(lab) - before
    check(lab, APP.name)
    users, pairs = sizes(lab)
    rows += [
        ("Redis bytes a user", f"{held / users:,.0f}"),
        ("Redis bytes a (user, item) pair", f"{held / pairs:,.1f}"),
    ]
    lab.start_services()
    say("folding the same events in names, with the enrichment join")
    lab.streams.wait_until(lambda: lab.behind() == 0, timeout=600)
    lab.streams.stop()
    streams = lab.host([f"metrics-0={lab.addresses['metrics'][0]}"])
    streams.start()
    feed.send_events(producer(lab.kafka.bootstrap), itertools.islice(events, 10 * freshness.RATE))
    streams.wait_until(lambda: lab.behind("metrics") == 0, timeout=60)
    try:
        rows += fresh(lab, events)
        streams.wait_until(lambda: lab.behind("metrics") == 0, timeout=60)
    finally:
        streams.stop()
    check(lab)
    say("every key of every service agrees with a recount")
    return rows + served(lab)


def ingest(lab: Lab) -> list[Row]:
    """From offset 0 to lag 0, the stream of metrics alone."""
    say("folding them from offset 0")
    store = RedisStore(connect(lab.redis.url, 60), APP.name)
    streams = lab.host([f"metrics-0={lab.addresses['metrics'][0]}"])
    started, redis_before = time.monotonic(), cpu.seconds([lab.redis])
    marks: list[tuple[float, float, int]] = []

    def done() -> bool:
        snapshots = store.read({partition: [] for partition in range(PARTITIONS)}).values()
        folded = sum(sum(snapshot.positions.values()) for snapshot in snapshots)
        if folded and (not marks or folded > marks[-1][2]):
            marks.append((time.monotonic(), cpu.seconds([streams, lab.redis]) - redis_before, folded))
        return folded >= EVENTS

    streams.start()
    streams.wait_until(done, timeout=600)
    streams.stop()
    (first_at, first_cpu, first), (last_at, last_cpu, _) = marks[0], marks[-1]
    warm = EVENTS - first
    return [
        ("ingest, events a second, from the start of the process", f"{EVENTS / (last_at - started):,.0f}"),
        ("ingest, events a CPU second, start-up of JVM and workers included", f"{EVENTS / last_cpu:,.0f}"),
        ("ingest, events a second, after the first commits", f"{warm / (last_at - first_at):,.0f}"),
        ("ingest, events a CPU second, after the first commits", f"{warm / (last_cpu - first_cpu):,.0f}"),
    ]


def fresh(lab: Lab, events: Iterator[Event]) -> list[Row]:
    """From acknowledged to visible, with the stream of metrics alone, as in a deployment, and a steady load."""
    say(f"freshness at {freshness.RATE} events a second")
    out, stop = producer(lab.kafka.bootstrap), threading.Event()
    with ThreadPoolExecutor(1) as executor:
        sending = executor.submit(freshness.steady, out, events, stop)
        time.sleep(WARM_S)
        seconds = freshness.measure(producer(lab.kafka.bootstrap), lab.url)
        stop.set()
        sent = sending.result()
    say(f"sent {sent} events meanwhile")
    return [
        (f"freshness at {freshness.RATE} events/s, p50", f"{reads.percentile(seconds, 0.5) * 1000:.0f} ms"),
        (f"freshness at {freshness.RATE} events/s, p99", f"{reads.percentile(seconds, 0.99) * 1000:.0f} ms"),
    ]


def served(lab: Lab) -> list[Row]:
    """Profiles a second at the owner and at the gateway, beside a hello-world on the same gunicorn settings."""
    say(f"reads by {reads.CLIENTS} clients")
    address = f"{LOCALHOST}:{free_port()}"
    hello = Lab.gunicorn("devkit.bench.hello:create()", "hello", address, lab.gateway.log.parent, {})
    hello.start()
    hello.wait_until(lambda: answers(f"http://{address}/"), timeout=30)
    profiles = [f"/v1/users/{user}/metrics" for user in range(1, 2_000)]
    places = {
        "hello-world": (address, ["/"]),
        "owner": (lab.addresses["metrics"][0], profiles),
        "gateway, names joined": (lab.url.removeprefix("http://"), profiles),
    }
    try:
        found = [{name: reads.measure(*place, READ_S) for name, place in places.items()} for _ in range(ROUNDS)]
    finally:
        hello.stop()
    middle = {name: sorted((one[name] for one in found), key=lambda r: r.per_second)[ROUNDS // 2] for name in places}
    share = statistics.median(one["owner"].per_second / one["hello-world"].per_second for one in found)
    return [
        *(
            (f"reads, {name}", f"{r.per_second:,.0f} a second, p50 {r.p50_ms:.1f} ms, p99 {r.p99_ms:.1f} ms")
            for name, r in middle.items()
        ),
        ("reads at the owner, share of hello-world", f"{share:.0%}"),
    ]


def check(lab: Lab, *services: str) -> None:
    """Raises `DevkitError` when the state of one of `services`, all when none is named, is not exact."""
    for report in verify(lab.settings, services):
        if report.differences:
            msg = f"{report}, such as {report.differences[0]}; do not trust the figures"
            raise DevkitError(msg)


def sizes(lab: Lab) -> tuple[int, int]:
    """Users, and distinct (user, item) over the three kinds."""
    with redis.Redis.from_url(lab.redis.url) as client:
        charts = list(client.scan_iter(match="{metrics:*}:user:*:*", count=1_000))
        pipeline = client.pipeline(transaction=False)
        for chart in charts:
            pipeline.zcard(chart)
        return len(charts) // len(KINDS), sum(pipeline.execute())


def used_memory(lab: Lab) -> int:
    return int(redis.Redis.from_url(lab.redis.url).info("memory")["used_memory"])


if __name__ == "__main__":
    main()
