"""Offsets from which topics are read, and how far merged topics are read at a time.

The records of merged topics are folded by stream time, over all topics of a partition. So a slice ends in all of them
at the same moment: what is before the first record with a timestamp has an earlier stream time, and what is after it
has not.
"""

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from pyspark.sql import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from streamstate.kafka.admin import Topics
from streamstate.settings import StreamSettings
from streamstate.state.store import TopicPartition

Offsets = dict[TopicPartition, int]
"""Next offsets."""

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)


def kafka_source(reader: Reader, settings: StreamSettings, offsets: Offsets) -> Reader:
    """`reader` with the options of Spark's Kafka source for reading from `offsets`."""
    assigned: dict[str, list[int]] = {}
    for topic, partition in offsets:
        assigned.setdefault(topic, []).append(partition)
    return (
        reader.options(**settings.security.source())
        .option("kafka.bootstrap.servers", settings.kafka)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", as_json(offsets))
        # The source asks for a partition's begin and end behind each fetch, on the connection on which the consumer
        # prefetches already: Kafka holds them back until that fetch is answered, and there is nothing more to come.
        .option("kafka.fetch.max.wait.ms", "0")
        .option("kafka.isolation.level", "read_committed")
    )


def as_json(offsets: Offsets) -> str:
    """As Spark's Kafka source takes offsets."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic)


def next_slice(topics: Topics, starts: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Where the next slice of about `most` records from `starts` ends; empty when no more than that are left."""
    ends = topics.ends(starts)
    if _size(starts, ends) <= most:
        return {}

    def until(timestamp: int) -> dict[TopicPartition, int]:
        offsets = topics.at(starts, timestamp)
        return {p: max(starts[p], ends[p] if at < 0 else min(at, ends[p])) for p, at in offsets.items()}

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
