"""What names a record of a derived topic, so that a reader recognizes a repeat."""

from typing import NamedTuple, Self

from confluent_kafka import Message

HEADER = "streamstate.source"


class Marker(NamedTuple):
    """The record that caused this one, and this one's `number` among all that it caused, from 0.

    A record that is sent again has the same marker. Kafka gives a `topic_id` only once, also when a topic is recreated.
    """

    topic_id: str
    partition: int
    offset: int
    number: int

    def encode(self) -> bytes:
        return ":".join(map(str, self)).encode()

    @classmethod
    def decode(cls, header: bytes) -> Self:
        """The marker in the header `streamstate.source`. Raises `ValueError` when it is none."""
        topic_id, partition, offset, number = header.decode().split(":")
        return cls(topic_id, int(partition), int(offset), int(number))

    @classmethod
    def of(cls, record: Message) -> Self | None:
        """The marker of `record`, None when it has none."""
        value = dict(record.headers() or []).get(HEADER)
        try:
            return cls.decode(value) if isinstance(value, bytes) else None
        except ValueError:
            return None
