"""Producing, and waiting until Kafka has acknowledged all records."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from streamstate.kafka.admin import TIMEOUT_S
from streamstate.kafka.security import OPEN, Security


def producer(bootstrap: str, security: Security = OPEN, transactional_id: str = "") -> Producer:
    """A producer that places keys as Kafka's DefaultPartitioner does and waits for all in-sync replicas.

    With a `transactional_id`, it first fences the previous producer of the id, whose transaction is aborted. Raises
    `KafkaException` when Kafka does not answer the fencing.
    """
    transactional: dict[str, str | int | float | bool] = {"transactional.id": transactional_id}
    out = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
            # The topic's own limit decides.
            "message.max.bytes": 10_000_000,
            # A callback for each record would cost more than producing it.
            "delivery.report.only.error": True,
            **(transactional if transactional_id else {}),
            **security.client(),
        }
    )
    if transactional_id:
        out.init_transactions(TIMEOUT_S)
    return out


@contextmanager
def transaction(out: Producer) -> Iterator[None]:
    """A transaction of the records of the body, aborted when it raises. Raises `KafkaException` itself.

    A commit without an answer may have been made.
    """
    out.begin_transaction()
    try:
        yield
        out.commit_transaction(TIMEOUT_S)
    except BaseException:
        # The first error says more than the error of a failed abort; the next producer of the id aborts.
        with suppress(KafkaException):
            out.abort_transaction(TIMEOUT_S)
        raise


def send_offsets(out: Producer, offsets: list[TopicPartition], group: object) -> None:
    """Make `offsets` of the consumer group `group` a part of the transaction.

    Raises `KafkaException`, at the latest after `TIMEOUT_S`. librdkafka itself ignores the timeout while the group's
    coordinator is away (confluentinc/librdkafka#5456), so the call is made in a thread and abandoned.
    """
    sent: Future[None] = Future()

    def send() -> None:
        try:
            out.send_offsets_to_transaction(offsets, group, TIMEOUT_S)
        except Exception as error:  # noqa: BLE001, it is raised where the result is awaited
            sent.set_exception(error)
        else:
            sent.set_result(None)

    threading.Thread(target=send, name="send-offsets", daemon=True).start()
    try:
        sent.result(TIMEOUT_S)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "Kafka did not take the offsets")) from None


Headers = list[tuple[str, str | bytes | None]]
Outgoing = tuple[str, bytes | None, bytes | None, Headers]
Dated = tuple[str, bytes | None, bytes | None, Headers, int]
"""A record with its own timestamp, in milliseconds."""


Refusal = tuple[KafkaError, Outgoing | Dated]


def distance_ms(timestamp: int) -> float:
    """How far a timestamp is from the present; 0 for the present.

    Kafka refuses a whole batch for one timestamp, and does not say for which.
    """
    return abs(time.time() * 1_000 - timestamp) if timestamp else 0.0


class RefusedRecord(KafkaException):
    """Kafka has not accepted `record`, of several the record with the timestamp farthest from the present."""

    def __init__(self, error: KafkaError, record: Outgoing | Dated) -> None:
        super().__init__(error)
        self.record = record


BY_KEY = -1
"""Leaves the choice of a partition to the partitioner."""


def present() -> int:
    """The timestamp of a record at the present time: 0 leaves it to the producer."""
    return 0


def send_all(
    out: Producer,
    records: Iterable[Outgoing | Dated],
    instead: Callable[[Outgoing | Dated], Outgoing] | None = None,
    partition: int = BY_KEY,
    clock: Callable[[], int] = present,
) -> int:
    """Produce, wait until Kafka has acknowledged every record, and return their number.

    An endless stream goes in slices. `instead` maps a record that is too large for its topic to its substitute.
    `clock` gives the timestamp of records without their own, in ms. Raises `RefusedRecord`.
    """
    refused: list[Refusal] = []
    count = 0
    for record in records:
        count += 1
        _produce(out, record, refused, partition, clock())
        out.poll(0)
    out.flush()
    if instead and all(error.code() == KafkaError.MSG_SIZE_TOO_LARGE for error, _ in refused):
        if refused:
            send_all(out, [instead(record) for _, record in refused])
    elif refused:
        raise RefusedRecord(*max(refused, key=lambda of: distance_ms(of[1][4] if len(of[1]) == 5 else 0)))
    return count


def _produce(
    out: Producer,
    record: Outgoing | Dated,
    refused: list[Refusal],
    partition: int,
    now: int,
) -> None:
    """Hand `record` to the producer; added to `refused` when Kafka does not accept it."""
    topic, key, value, headers, timestamp = record if len(record) == 5 else (*record, now)

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append((error, record))

    while True:
        try:
            out.produce(topic, value, key, partition, on_delivery=delivered, timestamp=timestamp, headers=headers)
        except BufferError:
            out.poll(0.1)
        except KafkaException as error:
            refused.append((error.args[0], record))
            return
        else:
            return
