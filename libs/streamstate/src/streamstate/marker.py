"""What names a record of a derived topic, so that a reader recognizes a repeat."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

HEADER = "streamstate.source"

Value = str | bytes | None
Headers = Mapping[str, Value] | Iterable[tuple[str, Value]]
"""As `confluent_kafka` gives them."""


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
    def decode(cls, header: bytes) -> Self | None:
        """The marker in the header `streamstate.source`, None when it is none."""
        try:
            topic_id, partition, offset, number = header.decode().split(":")
            return cls(topic_id, int(partition), int(offset), int(number))
        except ValueError:
            return None

    @classmethod
    def from_headers(cls, headers: Headers | None) -> Self | None:
        """The marker among the headers of a record, None when there is none."""
        value = dict(headers or ()).get(HEADER)
        return cls.decode(value) if isinstance(value, bytes) else None
