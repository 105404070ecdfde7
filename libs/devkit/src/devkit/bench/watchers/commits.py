"""When the state had each record, and how long after it a client heard of that."""

import math
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate

from devkit.repeating import repeating
from services.events import LISTENING_EVENTS
from streamstate import bootstrap
from streamstate.kafka.reading import read_to_end
from streamstate.keys import LONG

LOOK_S = 0.02
"""Commits are known so exactly, in seconds."""

Reached = Sequence[tuple[float, int]]
"""When (seconds of one clock, rising) a next offset was reached."""

Place = tuple[int, int]
"""Partition and offset."""


@contextmanager
def commits(redis: str, service: str, partitions: int) -> Iterator[Mapping[int, Reached]]:
    """What the state of `service` reaches while the body runs, by partition."""
    reached: dict[int, list[tuple[float, int]]] = {partition: [] for partition in range(partitions)}
    store = bootstrap.store(redis, 10.0, service)

    def record_positions() -> None:
        for partition, snapshot in store.read({partition: [] for partition in reached}).items():
            position = snapshot.positions.get(LISTENING_EVENTS, 0)
            if not reached[partition] or reached[partition][-1][1] < position:
                reached[partition].append((time.monotonic(), position))

    with repeating(record_positions, LOOK_S):
        yield reached


def has_reached(reached: Mapping[int, Reached], ends: Mapping[int, int]) -> bool:
    """Whether each partition has reached its end in `ends`."""
    return all(reached[partition] and reached[partition][-1][1] >= end for partition, end in ends.items())


def plays(kafka: str, starts: Mapping[int, int], users: Iterable[int]) -> Mapping[int, Sequence[Place]]:
    """Where the plays of `users` are in their topic from the offsets `starts` on, by user."""
    by_key = {LONG.encode(user): user for user in users}
    found: defaultdict[int, list[Place]] = defaultdict(list)
    places = {(LISTENING_EVENTS, partition): offset for partition, offset in starts.items()}
    for message in read_to_end(kafka, places):
        if (user := by_key.get(message.key() or b"")) is not None:
            found[user].append((message.partition() or 0, message.offset() or 0))
    return found


def behind(offset: int, commits: Reached, heard: Reached) -> float:
    """Seconds from the commit of the record at `offset` to the first event of a later state; infinite without one."""
    told = _when(offset, heard)
    return max(0.0, told - _when(offset, commits)) if told < math.inf else math.inf


def _when(offset: int, reached: Reached) -> float:
    """When the record at `offset` was reached; infinite for never."""
    # An answer that overtook another one may be the older one.
    positions = list(accumulate((position for _, position in reached), max))
    at = bisect_right(positions, offset)
    return reached[at][0] if at < len(positions) else math.inf
