"""The identity of a record of a derived topic, by which a reader recognizes a repeat."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

HEADER = "streamstate.source"

Value = str | bytes | None
Headers = Mapping[str, Value] | Iterable[tuple[str, Value]]
"""Headers as returned by `confluent_kafka`."""


class Marker(NamedTuple):
    """Identifies a derived record: topic id, partition and offset of its source, and its index (`number`) from 0 among
    the records of the same source.

    A repeated record has the same marker. Kafka never reuses a `topic_id`, even when a topic is recreated.
    """

    topic_id: str
    partition: int
    offset: int
    number: int

    def encode(self) -> bytes:
        return ":".join(map(str, self)).encode()

    @classmethod
    def decode(cls, header: bytes) -> Self | None:
        """The marker in the header `streamstate.source`, None for an invalid header."""
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
