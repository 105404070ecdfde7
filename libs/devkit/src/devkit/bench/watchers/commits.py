"""The time of each record's commit, and the delay until its event."""

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
"""The resolution of the times of commits, in seconds."""

Reached = Sequence[tuple[float, int]]
"""Moments (seconds, rising), each with the next offset at that moment."""


@contextmanager
def commits(redis: str, service: str, partitions: int) -> Iterator[Mapping[int, Reached]]:
    """The progress of the state of `service` while the body runs, by partition."""
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


def plays(kafka: str, starts: Mapping[int, int], users: Iterable[int]) -> Mapping[int, Sequence[tuple[int, int]]]:
    """Partition and offset of the plays of `users` from the offsets `starts` on, by user."""
    by_key = {LONG.encode(user): user for user in users}
    found: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    places = {(LISTENING_EVENTS, partition): offset for partition, offset in starts.items()}
    for message in read_to_end(kafka, places):
        if (user := by_key.get(message.key() or b"")) is not None:
            found[user].append((message.partition() or 0, message.offset() or 0))
    return found


def behind(offset: int, commits: Reached, heard: Reached) -> float:
    """Seconds from the commit of the record at `offset` to the first event of a later state, or infinite."""
    told = _when(offset, heard)
    return max(0.0, told - _when(offset, commits)) if told < math.inf else math.inf


def _when(offset: int, reached: Reached) -> float:
    """The moment after the record at `offset`; infinite if the state never reached the record."""
    # Answers may overtake each other, so positions may go back.
    positions = list(accumulate((position for _, position in reached), max))
    at = bisect_right(positions, offset)
    return reached[at][0] if at < len(positions) else math.inf
