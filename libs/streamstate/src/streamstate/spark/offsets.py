"""Offsets from which topics are read, and how far merged topics are read at a time.

The records of merged topics are folded by stream time, over all topics of a partition. So a slice ends in all of them
at the same moment: what is before the first record with a timestamp has an earlier stream time, and what is after it
has not.
"""

import json
from collections.abc import Callable, Iterable, Mapping

from streamstate.kafka.admin import Topics
from streamstate.state.store import Claim, TopicPartition

Offsets = dict[TopicPartition, int]
"""Next offsets; negative ones mean the first that there still are."""

_EARLIEST = -2


def stored(claims: Mapping[int, Claim], topics: Iterable[str], counts: Mapping[str, int]) -> Offsets:
    """Where the state stands, by topic and partition."""
    return {
        (topic, partition): claim.positions.get(topic, _EARLIEST)
        for topic in topics
        for partition, claim in claims.items()
        if partition < counts[topic]
    }


def as_json(offsets: Offsets) -> str:
    """As Spark's Kafka source takes offsets."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic)


def next_slice(topics: Topics, starts: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Where the next slice of about `most` records ends; empty when no more than that are left.

    `starts` are the next offsets, negative ones mean the first that there still are.
    """
    begins, ends = topics.begins(starts), topics.ends(starts)
    starts = {place: max(start, begins[place]) for place, start in starts.items()}
    if _size(starts, ends) <= most:
        return {}

    def until(timestamp: int) -> dict[TopicPartition, int]:
        found = topics.at(starts, timestamp)
        return {p: max(starts[p], ends[p] if at < 0 else min(at, ends[p])) for p, at in found.items()}

    return until(latest(lambda timestamp: _size(starts, until(timestamp)), most))


def latest(size: Callable[[int], int], most: int) -> int:
    """The latest timestamp (milliseconds) with a `size` of at most `most`; a later one where that is nothing at all."""
    below, above = 0, _END
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if size(middle) <= most else (below, middle)
    return below if size(below) else above


_END = 1 << 43
"""A timestamp (milliseconds) of the year 2248."""


def _size(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    return sum(ends[place] - start for place, start in starts.items())
