"""Reading partitions from given offsets to their ends."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streamstate.app import Source
from streamstate.kafka.admin import TIMEOUT_S, Topics
from streamstate.kafka.security import OPEN, Security
from streamstate.processing.decode import raw_record

GROUP = "streamstate-reading"
"""A client needs a group, although the group commits nothing."""

SAMPLED = 300
"""Records at the begin and at the end of a topic whose keys are sampled."""


def open_since(bootstrap: str, place: tuple[str, int], stable: int, security: Security = OPEN) -> int | None:
    """The time (milliseconds since 1970) of the first record held back by an open transaction; None without one.

    stable: the last stable offset of topic and partition.
    """
    opened = consumer(bootstrap, security, "read_uncommitted")
    try:
        opened.assign([TopicPartition(*place, stable)])
        message = opened.poll(TIMEOUT_S)
        return None if message is None or message.error() else message.timestamp()[1]
    finally:
        opened.close()


def read_to_end(
    bootstrap: str,
    starts: Mapping[tuple[str, int], int],
    security: Security = OPEN,
) -> Iterator[Message]:
    """The records of topics and partitions from the offsets `starts` to the present ends.

    Raises `KafkaException` when Kafka does not answer.
    """
    opened = consumer(bootstrap, security, "read_committed")
    try:
        opened.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
        unfinished = len(starts)
        while unfinished:
            message = opened.poll(TIMEOUT_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            if (error := message.error()) is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished -= 1
            else:
                raise KafkaException(error)
    finally:
        opened.close()


def sampled_keys(topics: Topics, source: Source[Any, Any]) -> Iterator[tuple[int, bytes | None]]:
    """Partition and key of some of the first records of a topic, and of the last records of each partition.

    Raises `Misconfigured` for a topic that does not exist, and `KafkaException` when Kafka does not answer.
    """
    places = [(source.topic, partition) for partition in range(topics.partitions(source.topic))]
    begins, ends = topics.begins(places), topics.ends(places)
    share = max(1, SAMPLED // len(places))
    last = {place: max(begin, ends[place] - share) for place, begin in begins.items()}
    for starts in (begins, last):
        for message in islice(read_to_end(topics.bootstrap, starts, topics.security), SAMPLED):
            yield message.partition() or 0, raw_record(message, header_ids=source.header_ids)[2]


def consumer(bootstrap: str, security: Security, isolation: str) -> Consumer:
    """A consumer for `assign`, which reports the end of a partition. Deleted records are skipped."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            # Kafka waits so long for more records before it reports the end of a partition.
            "fetch.wait.max.ms": 10,
            **security.client(),
        }
    )
