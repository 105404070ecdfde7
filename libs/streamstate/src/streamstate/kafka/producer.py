"""Producing, and waiting until Kafka has acknowledged all records."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby

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

    The first record that Kafka does not accept ends the producer: no later record passes it.
    With a `transactional_id`, it first fences the previous producer of the id, whose transaction is aborted. Raises
    `KafkaException` when Kafka does not answer the fencing.
    """
    out = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            # What Kafka stores is always the beginning of what was sent to a partition: readers take an earlier record
            # behind a later one for a repeat. A message timeout would drop the oldest records alone, and a broker
            # accepts any first batch of a producer, so also the second of several in flight.
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
            # The topic's own limit decides.
            "message.max.bytes": 10_000_000,
            # A callback for each record would cost more than producing it.
            "delivery.report.only.error": True,
            **({"transactional.id": transactional_id} if transactional_id else {"message.timeout.ms": 0}),
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


_SERVED_S = 0.1

LARGE_BYTES = 500_000
"""A record of this size goes alone: its topic may refuse it, and a refusal ends the producer."""

BY_KEY = -1
"""Leaves the choice of a partition to the partitioner."""


def present() -> int:
    """The timestamp of a record at the present time: 0 leaves it to the producer."""
    return 0


DELIVERY_S = 120.0
"""Seconds that Kafka has to acknowledge records: `delivery.timeout.ms` of Kafka's own producers."""


def send_all(
    out: Producer,
    records: Iterable[Outgoing | Dated],
    partition: int = BY_KEY,
    clock: Callable[[], int] = present,
    timeout_s: float = DELIVERY_S,
) -> int:
    """Produce, wait until Kafka has acknowledged every record, and return their number.

    An endless stream goes in slices. `clock` gives the timestamp of records without their own, in ms. Raises
    `RefusedRecord`, and `KafkaException` for records without an answer after `timeout_s`; `out` is unusable then.
    """
    refused: list[Refusal] = []
    count = 0
    for record in records:
        count += 1
        _produce(out, record, refused, (partition, clock()), timeout_s)
        _await(partial(out.poll, 0))
    end = time.monotonic() + timeout_s
    while len(out) and time.monotonic() < end:
        _await(partial(out.flush, _SERVED_S))
    if len(out):
        out.purge()
        reason = f"Kafka has not acknowledged {len(out)} records within {timeout_s:.0f} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, reason))
    if refused:
        raise RefusedRecord(*max(refused, key=_severity))
    return count


def _await(answers: Callable[[], int]) -> None:
    """Take answers. The end of the producer is raised before the refusals that caused it, which follow."""
    with suppress(KafkaException):
        answers()


def _severity(refusal: Refusal) -> tuple[bool, float]:
    """Greatest for the likeliest cause. Refusals by brokers have positive codes, refusals by the ended producer not."""
    error, record = refusal
    return error.code() > 0, distance_ms(record[4] if len(record) == 5 else 0)


def _produce(
    out: Producer,
    record: Outgoing | Dated,
    refused: list[Refusal],
    defaults: tuple[int, int],
    timeout_s: float,
) -> None:
    """Hand `record` to the producer; added to `refused` when Kafka does not accept it.

    defaults: its partition, and its timestamp unless it has its own. timeout_s: for room among the waiting records.
    """
    partition, now = defaults
    end = time.monotonic() + timeout_s
    topic, key, value, headers, timestamp = record if len(record) == 5 else (*record, now)

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append((error, record))

    while True:
        try:
            out.produce(topic, value, key, partition, on_delivery=delivered, timestamp=timestamp, headers=headers)
        except BufferError as error:
            if time.monotonic() > end:
                out.purge()
                raise KafkaException(KafkaError(KafkaError._QUEUE_FULL, str(error))) from error
            _await(partial(out.poll, _SERVED_S))
        except KafkaException as error:
            refused.append((error.args[0], record))
            return
        else:
            return


class Outputs:
    """Sends the outputs of one thread: of the records to a topic's partition, Kafka stores all, or the first ones."""

    def __init__(self, bootstrap: str, security: Security, timeout_s: float = DELIVERY_S) -> None:
        self._make = partial(producer, bootstrap, security)
        self._timeout_s = timeout_s
        self._producer: Producer | None = None

    def send(
        self, records: Sequence[Outgoing | Dated], instead: Callable[[Outgoing | Dated], Outgoing] | None = None
    ) -> None:
        """Return when Kafka has stored all of `records`.

        `instead` maps a record that is too large for its topic to its substitute. Raises as `send_all`.
        """
        for run in _runs(records):
            self._send(run, instead)

    def _send(
        self, records: Sequence[Outgoing | Dated], instead: Callable[[Outgoing | Dated], Outgoing] | None
    ) -> None:
        """Kafka refuses batches, and does not say for which record: halves lead to it, and repeat what was stored."""
        self._producer = self._producer or self._make()
        try:
            send_all(self._producer, records, timeout_s=self._timeout_s)
        except KafkaException as error:
            self._producer = None
            if instead is None or error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
        else:
            return
        half = len(records) // 2
        if half:
            self._send(records[:half], instead)
            self._send(records[half:], instead)
        else:
            self._send([instead(records[0])], None)


def _runs(records: Iterable[Outgoing | Dated]) -> Iterator[Sequence[Outgoing | Dated]]:
    """`records` in order, each large record alone."""
    for large, group in groupby(records, lambda record: len(record[2] or b"") >= LARGE_BYTES):
        run = [*group]
        yield from ([record] for record in run) if large else [run]
