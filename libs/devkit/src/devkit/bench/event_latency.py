"""How long after it was sent an event is visible in the owner's answers, while others stream in."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import urllib3
from confluent_kafka import Producer

from devkit import DevkitError, records
from devkit.bench import cpu
from services.events import LISTENING_EVENTS
from streamstate.kafka.admin import QUIET

MARKERS = 200
WARM_S = 60
"""A stream's JVM compiles its code within about a minute."""

_FIRST_MARKER = 10_000_000
"""Markers are users of their own, so that the first answer for one is the marker's."""
_POLL_S = 0.01
_LOST_S = 30


@dataclass(frozen=True)
class EventLatency:
    """Milliseconds from sending to visible, and the cores that stream and state took meanwhile, by process."""

    p50_ms: float
    p99_ms: float
    cores: Mapping[str, float]
    pressure: float | None


def measure(bootstrap: str, address: str, trees: Mapping[str, int]) -> EventLatency:
    """`MARKERS` events, one after the other at uneven moments; `address` is the owner's, for all partitions.

    Raises `DevkitError` when one does not become visible.
    """
    out = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 0, **QUIET})
    pool, meter = urllib3.PoolManager(), cpu.Meter(trees)
    waited = []
    for number in range(MARKERS):
        time.sleep(number % 10 * 0.01)
        waited.append(1000 * _marker(out, pool, address, _FIRST_MARKER + number))
    usage = meter.read()
    cores = {name: usage.cores(name) for name in trees}
    p50, p99 = np.percentile(waited, (50, 99)).tolist()
    return EventLatency(p50, p99, cores, usage.pressure)


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
