"""Records of one partition of a topic, read step by step up to given offsets."""

from collections.abc import Iterator
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from streamstate.errors import StreamStateError
from streamstate.kafka.admin import Topics
from streamstate.kafka.reading import consumer
from streamstate.kafka.security import Security

TIMEOUT_S = 30.0
_PIECE = 2_000


class TopicLog:
    """Reads a partition from its beginning, committed records only. A context manager."""

    def __init__(self, bootstrap: str, security: Security, topic: str, partition: int) -> None:
        self.topic = topic
        self._partition = partition
        self._position = 0
        self._ahead: list[Message] = []
        self._consumer = consumer(bootstrap, security, "read_committed")
        self._consumer.assign([TopicPartition(topic, partition, 0)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def up_to(self, offset: int) -> Iterator[Message]:
        """The records from the end of the last call to before `offset`.

        Raises `StreamStateError` when the records do not arrive, or when the first records are deleted: a recount is
        impossible then.
        """
        if self._position == 0 < offset:
            self._require_all()
        while self._position < offset:
            messages = self._ahead or self._next()
            if not messages:
                msg = f"{self.topic}:{self._partition} cannot be read up to {offset}; check Kafka and run again"
                raise StreamStateError(msg)
            while messages and (messages[-1].offset() or 0) < offset:
                message = messages.pop()
                if (error := message.error()) is None:
                    yield message
                    self._position = (message.offset() or 0) + 1
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
            if messages:
                # A record at `offset` or after it, or the end of the partition there.
                self._position = offset
            self._ahead = messages

    def _next(self) -> list[Message]:
        """The received records, newest first, so that popping the oldest is cheap; waits for one record at most."""
        first = self._consumer.poll(TIMEOUT_S)
        return [] if first is None else [*reversed(self._consumer.consume(_PIECE, 0)), first]

    def _require_all(self) -> None:
        place = TopicPartition(self.topic, self._partition)
        low, _high = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
        if low > 0:
            msg = (
                f"{self.topic}:{self._partition} begins at offset {low}: earlier records are deleted, and cannot be "
                "counted again"
            )
            raise StreamStateError(msg)


def whole(bootstrap: str, security: Security, topics: Topics, topic: str) -> Iterator[Message]:
    """The present records of `topic`, partition by partition."""
    for (_, partition), end in topics.ends((topic, p) for p in range(topics.partitions(topic))).items():
        with TopicLog(bootstrap, security, topic, partition) as log:
            yield from log.up_to(end)
