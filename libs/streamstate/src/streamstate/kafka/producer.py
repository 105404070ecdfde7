"""Producing, and waiting until Kafka has all of it."""

from collections.abc import Iterable

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
)

from streamstate.kafka.admin import QUIET
from streamstate.kafka.security import OPEN, Security


def producer(bootstrap: str, security: Security = OPEN) -> Producer:
    """A producer that places keys as Kafka's DefaultPartitioner does and waits for all in-sync replicas."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
            # A callback for each record would cost more than producing it.
            "delivery.report.only.error": True,
            **security.client(),
            **QUIET,
        }
    )


Headers = list[tuple[str, str | bytes | None]]
Outgoing = tuple[str, bytes | None, bytes | None, Headers]


def send_all(out: Producer, records: Iterable[Outgoing]) -> int:
    """Produce, wait until Kafka has acknowledged every record, and return how many.

    An endless stream goes in slices. Raises `KafkaException` when a record was not accepted.
    """
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    count = 0
    for topic, key, value, headers in records:
        count += 1
        while True:
            try:
                out.produce(topic, value=value, key=key, headers=headers, on_delivery=delivered)
                break
            except BufferError:
                out.poll(0.1)
        out.poll(0)
    out.flush()
    if failures:
        raise KafkaException(failures[0])
    return count
