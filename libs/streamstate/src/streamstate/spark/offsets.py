"""Start offsets of topics, and slices of merged topics.

The records of merged topics are folded by stream time, over all topics of a partition. So a slice ends at the same
timestamp in all topics: only records before the first record with a timestamp have an earlier stream time. Records of
one stream time are folded topic by topic, so a slice with too many such records ends in the first topics first.
"""

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from pyspark.sql import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from streamstate.kafka.admin import Topics
from streamstate.kafka.reading import read_to_end
from streamstate.processing.decode import RawRecord
from streamstate.spark.rows import needs_headers
from streamstate.spark.task import FoldTask
from streamstate.state.store import TopicPartition

Offsets = dict[TopicPartition, int]
"""Next offsets, in the order in which an app merges its topics."""

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)


def kafka_source(reader: Reader, task: FoldTask, offsets: Offsets) -> Reader:
    """`reader` with the options of Spark's Kafka source for the columns of `task` from `offsets`."""
    assigned: dict[str, list[int]] = {}
    for topic, partition in offsets:
        assigned.setdefault(topic, []).append(partition)
    return (
        # After each fetch, the source asks for begin and end of a partition on the connection of the consumer's
        # prefetch: Kafka would hold both answers back until the wait of the prefetch ends.
        reader.option("kafka.fetch.max.wait.ms", "0")
        # All brokers may have new addresses behind the given names (KIP-899).
        .option("kafka.metadata.recovery.strategy", "rebootstrap")
        .options(**task.security.source())
        .option("kafka.bootstrap.servers", task.settings.kafka)
        .option("groupIdPrefix", f"{task.app.group}-spark")
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", as_json(offsets))
        .option("includeHeaders", any(needs_headers(task.app, topic) for topic in task.app.topics))
        .option("kafka.isolation.level", "read_committed")
    )


def as_json(offsets: Offsets) -> str:
    """Offsets in the format of Spark's Kafka source."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic)


def next_slice(topics: Topics, starts: Offsets, most: int, stops: Mapping[TopicPartition, int]) -> Offsets:
    """The end of the next slice of at most `most` records from `starts`, at most up to `stops`.

    Empty when at most `most` records are left, without `stops`.
    """
    ends = {**topics.ends(starts), **stops}
    if _size(starts, ends) <= most:
        return ends if stops else {}

    def until(timestamp: int) -> Offsets:
        offsets = topics.offsets_at(starts, timestamp)
        return {p: max(starts[p], ends[p] if at < 0 else min(at, ends[p])) for p, at in offsets.items()}

    return _first(starts, until(latest(lambda timestamp: _size(starts, until(timestamp)), most)), most)


def latest(size: Callable[[int], int], most: int) -> int:
    """The latest timestamp (milliseconds) with a `size` of at most `most`; a later one where the size would be 0."""
    below, above = 0, _END
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if size(middle) <= most else (below, middle)
    return below if size(below) else above


def _first(starts: Offsets, ends: Offsets, most: int) -> Offsets:
    """The ends of the first `most` records from `starts` to `ends`, topic by topic."""
    cut = {}
    for place, start in starts.items():
        cut[place] = min(ends[place], start + most)
        most -= cut[place] - start
    return cut


_END = (1 << 63) - 1
"""The greatest timestamp (milliseconds) in Kafka."""


def _size(starts: Offsets, ends: Offsets) -> int:
    return sum(ends[place] - start for place, start in starts.items())


MOST_MS = _END // 1_000
"""The greatest timestamp that Spark reads. Spark stores microseconds in 64 bits, and a query fails on greater ones."""


def unreadable(topics: Topics, offsets: Offsets, task: FoldTask) -> dict[TopicPartition, RawRecord]:
    """The first record from `offsets` on, by topic and partition, with a timestamp that Spark cannot read."""
    starts = {place: offset for place, offset in offsets.items() if place[0] in task.timestamps.unbounded}
    if not starts:
        return {}
    firsts = {place: offset for place, offset in topics.offsets_at(starts, MOST_MS + 1).items() if offset >= 0}
    # Kafka gives the first offset in the whole log, possibly a folded record.
    candidates = {place: max(first, starts[place]) for place, first in firsts.items()}
    records = {place: _first_unreadable(place, offset, task) for place, offset in candidates.items()}
    return {place: record for place, record in records.items() if record}


def _first_unreadable(place: TopicPartition, offset: int, task: FoldTask) -> RawRecord | None:
    """The first record at `offset` or later with a timestamp that Spark cannot read."""
    for record in read_to_end(task.settings.kafka, {place: offset}, task.security):
        timestamp = record.timestamp()[1]
        if timestamp > MOST_MS:
            return record.offset() or 0, timestamp, record.key(), record.value()
    return None
