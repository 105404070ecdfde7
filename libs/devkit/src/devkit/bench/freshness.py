"""How long after Kafka's acknowledgement an event is visible at the gateway, while others stream in."""

import itertools
import threading
import time
from collections.abc import Iterator

import urllib3
from confluent_kafka import Producer

from devkit import records
from devkit.records import Event
from devkit.topics import EVENTS

RATE = 5_000
MARKERS = 100
FIRST_MARKER = 10_000_000
"""Markers are users of their own, so that the first answer for one is the marker's."""

_TICK_S = 0.02
_LOST_S = 30
_POLL_S = 0.01


def steady(out: Producer, events: Iterator[Event], stop: threading.Event) -> int:
    """Send `RATE` events a second until `stop` is set; returns how many."""
    sent, started = 0, time.monotonic()
    while not stop.is_set():
        for key, value in itertools.islice(events, int(RATE * _TICK_S)):
            out.produce(EVENTS, value, key)
            sent += 1
        out.poll(0)
        time.sleep(max(0.0, started + sent / RATE - time.monotonic()))
    out.flush()
    return sent


def measure(out: Producer, url: str) -> list[float]:
    """Seconds from acknowledged to visible, of `MARKERS` events, one after the other at uneven moments."""
    pool = urllib3.PoolManager()
    found = []
    for number in range(MARKERS):
        time.sleep(number % 10 * 0.02)
        found.append(_marker(out, pool, f"{url}/v1/users/{FIRST_MARKER + number}/metrics", FIRST_MARKER + number))
    return found


def _marker(out: Producer, pool: urllib3.PoolManager, address: str, user: int) -> float:
    key, value = records.event(user, 1, 1, 1, 1)
    out.produce(EVENTS, value, key)
    out.flush()
    acknowledged = time.monotonic()
    while pool.request("GET", address).status != 200:
        if time.monotonic() > acknowledged + _LOST_S:
            return float("inf")
        time.sleep(_POLL_S)
    return time.monotonic() - acknowledged
