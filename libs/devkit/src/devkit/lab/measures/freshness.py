"""The time from sending an event to its effect in the owner's answers, while other events stream in."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import urllib3
from confluent_kafka import Producer

from devkit import DevkitError
from devkit.demo import say
from devkit.events import records
from devkit.lab import cpu
from devkit.lab.plays import RATE
from devkit.lab.targets import Report, Target
from services.events import LISTENING_EVENTS
from streamstate.kafka.security import OPEN

MARKERS = 200
_MARKED = itertools.count(10_000_000)
"""Each marker has a user of its own, whose first answer shows the marker."""
_POLL_S = 0.01
_LOST_S = 30


@dataclass(frozen=True)
class Delays:
    """waited_ms: of each marker. usage: of stream and Redis meanwhile."""

    waited_ms: Sequence[float]
    usage: cpu.Usage

    def targets(self, name: str, p50_ms: float, p99_ms: float) -> list[Target]:
        """The targets of median and 99th percentile, called `name`; without stretch goals."""
        limits = {50: p50_ms, 99: p99_ms}
        values = zip(limits.items(), np.percentile(self.waited_ms, [*limits]).tolist(), strict=True)
        return [
            Target(f"{name}, p{percent}", value, limit, unit="ms", parts=self.usage.cores)
            for (percent, limit), value in values
        ]

    def tell(self, report: Report) -> None:
        """Add rows and targets of the stream of metrics alone."""
        load, cores = f"at {RATE:,} events/s", self.usage.cores
        report.figures["Streams"][f"cores {load}"] = str(self.usage)
        p50, p99 = self.targets(f"freshness {load}", 150, 300)
        report.targets += [replace(p50, goal=100), replace(p99, goal=200)]
        report.targets.append(
            Target(f"CPU of stream and Redis {load}", sum(cores.values()), 0.8, 0.5, "cores", parts=cores)
        )


def measure(bootstrap: str, address: str, trees: Mapping[str, int]) -> Delays:
    """Send `MARKERS` events, one after another at uneven moments; `address` is the owner's, for all partitions.

    trees: stream and Redis. Raises `DevkitError` when an event does not become visible.
    """
    say("freshness")
    out = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 0, **OPEN.client()})
    pool, meter = urllib3.PoolManager(), cpu.Meter(trees)
    waited = []
    for number in range(MARKERS):
        time.sleep(number % 10 * 0.01)
        waited.append(1000 * _marker(out, pool, address, next(_MARKED)))
    return Delays(waited, meter.read())


def _marker(out: Producer, pool: urllib3.PoolManager, address: str, user: int) -> float:
    """Seconds until the first event of `user` is visible."""
    key, value = records.event(user, 1, 1, 1, time.time_ns() // 1_000_000)
    sent = time.monotonic()
    out.produce(LISTENING_EVENTS, value, key)
    out.poll(0)
    while pool.request("GET", f"http://{address}/v1/users/{user}/metrics").status != 200:
        if time.monotonic() > sent + _LOST_S:
            slow = f"this machine is too busy or too slow for {RATE:,} events a second"
            msg = f"the event of user {user} was not visible after {_LOST_S} s: {slow}; leave the part out by ONLY"
            raise DevkitError(msg)
        time.sleep(_POLL_S)
    return time.monotonic() - sent
