"""Recommendations on the ring: new to the user, and fresh."""

import statistics
import time
from functools import partial

from devkit import records
from devkit.local_cluster import get
from services.events import LISTENING_EVENTS
from tests.integration.driving import Driving
from tests.waiting import until

FRESH_S = 2
MARKERS = 5
NEWCOMER = 700_001
KNOWN_TRACK = 1


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
