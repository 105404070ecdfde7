"""The time from sending an event to its effect in the owner's answers, while other events stream in."""

import time
from collections.abc import Mapping

import numpy as np
import urllib3
from confluent_kafka import Producer

from devkit import DevkitError, records
from devkit.bench import cpu
from devkit.bench.report import RATE, BenchReport, Target
from devkit.demo import say
from services.events import LISTENING_EVENTS
from streamstate.kafka.admin import QUIET

MARKERS = 200
_FIRST_MARKER = 10_000_000
"""Each marker has a user of its own, whose first answer shows the marker."""
_POLL_S = 0.01
_LOST_S = 30


def measure(bootstrap: str, address: str, trees: Mapping[str, int], report: BenchReport) -> None:
    """Send `MARKERS` events, one after another at uneven moments; `address` is the owner's, for all partitions.

    trees: stream and Redis. Raises `DevkitError` when an event does not become visible.
    """
    say("freshness")
    out = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 0, **QUIET})
    pool, meter = urllib3.PoolManager(), cpu.Meter(trees)
    waited = []
    for number in range(MARKERS):
        time.sleep(number % 10 * 0.01)
        waited.append(1000 * _marker(out, pool, address, _FIRST_MARKER + number))
    tell(waited, meter.read(), report)


def tell(waited_ms: list[float], usage: cpu.Usage, report: BenchReport) -> None:
    """Add rows and targets."""
    at, cores = f"at {RATE:,} events/s", usage.cores
    p50, p99 = np.percentile(waited_ms, (50, 99)).tolist()
    report.sections["Streams"][f"cores {at}"] = str(usage)
    for what, value, limit, goal, unit in (
        (f"freshness {at}, p50", p50, 150, 100, "ms"),
        (f"freshness {at}, p99", p99, 300, 200, "ms"),
        (f"CPU of stream and Redis {at}", sum(cores.values()), 0.8, 0.5, "cores"),
    ):
        report.targets.append(Target(what, value, limit, goal, unit, parts=cores))


def _marker(out: Producer, pool: urllib3.PoolManager, address: str, user: int) -> float:
    """Seconds until the first event of `user` is visible."""
    key, value = records.event(user, 1, 1, 1, time.time_ns() // 1_000_000)
    sent = time.monotonic()
    out.produce(LISTENING_EVENTS, value, key)
    out.poll(0)
    while pool.request("GET", f"http://{address}/v1/users/{user}/metrics").status != 200:
        if time.monotonic() > sent + _LOST_S:
            msg = f"the event of user {user} was not visible after {_LOST_S} s"
            raise DevkitError(msg)
        time.sleep(_POLL_S)
    return time.monotonic() - sent
