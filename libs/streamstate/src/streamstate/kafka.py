"""What is asked of Kafka apart from the records: partition counts, end offsets, producing, dead letters."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from streamstate.app import App, Emit
from streamstate.errors import Misconfigured
from streamstate.processing import DeadLetter
from streamstate.security import OPEN, Security
from streamstate.state import Origin

SOURCE_HEADER = "streamstate.source"
TIMEOUT_S = 10.0
QUIET = {"log_level": 2}
"""A broker that is away is told of by errors; librdkafka would also log each of its attempts, twenty a second."""


class Topics:
    """Partition counts and ids of topics from Kafka, remembered for `ttl` seconds. Safe for threads."""

    def __init__(self, bootstrap: str, ttl: float = 20.0, security: Security = OPEN) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **security.client(), **QUIET})
        self._ttl = ttl
        self._known: dict[str, tuple[float, Origin]] = {}
        self._asking = threading.Lock()

    def partitions(self, topic: str) -> int:
        """How many partitions `topic` has. Raises `Misconfigured` for a topic that does not exist.

        While Kafka is away, a count that was known before goes on being used: partitions are never taken away.
        """
        return self.origin(topic).partitions

    def origin(self, topic: str) -> Origin:
        """The id and the partition count of `topic`, with what was said of `partitions`.

        Only the first call waits for Kafka: later ones get what is known, and what is old is asked for meanwhile.
        """
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = (time.monotonic(), self._ask(topic, TIMEOUT_S))
        read_at, known = found
        if time.monotonic() - read_at >= self._ttl and self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask_again, args=(topic, read_at, known), daemon=True).start()
        return known

    def known(self, topic: str) -> Origin | None:
        """What was said of `topic` last, None when nothing was yet; never waits for Kafka."""
        found = self._known.get(topic)
        return None if found is None else found[1]

    def _ask_again(self, topic: str, read_at: float, known: Origin) -> None:
        try:
            self._known[topic] = (time.monotonic(), self._ask(topic, 1.0))
        except KafkaException:
            self._known[topic] = (time.monotonic(), known)
        except Misconfigured:
            # A broker that is just starting knows no topics; one that goes on like this is believed.
            if time.monotonic() - read_at > 2 * self._ttl:
                self._known.pop(topic)
        finally:
            self._asking.release()

    def _ask(self, topic: str, timeout: float) -> Origin:
        try:
            asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=timeout)
            found = asked[topic].result()
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
                raise
            msg = f"the topic {topic} cannot be read ({reason.str()}); create it or correct its name"
            raise Misconfigured(msg) from error
        return Origin(str(found.topic_id), len(found.partitions))

    def widest(self, topics: Iterable[str]) -> int:
        """The partitions of the widest of `topics`: as many as an app over them has."""
        return max(map(self.partitions, topics))

    def begins(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The first offsets that there still are, of (topic, partition)."""
        return self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # it has no annotations

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The end offsets of (topic, partition): of what is committed, for no more can be read."""
        return self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # it has no annotations

    def at(self, places: Iterable[tuple[str, int]], timestamp: int) -> dict[tuple[str, int], int]:
        """The first offsets, of (topic, partition), at `timestamp` (milliseconds) or later; -1 where there is none."""
        return self._offsets(places, OffsetSpec.for_timestamp(timestamp))

    def _offsets(self, places: Iterable[tuple[str, int]], of: OffsetSpec) -> dict[tuple[str, int], int]:
        wanted = {TopicPartition(*place): of for place in places}
        answers = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
        )
        return {(at.topic, at.partition): answer.result().offset for at, answer in answers.items()}


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


def derived(emits: Iterable[Emit], partition: int) -> Iterable[Outgoing]:
    """The records of derived topics, each naming the record of `partition` that caused it."""
    for emit in emits:
        cause = f"{emit.cause.topic}:{partition}:{emit.cause.offset}"
        yield emit.topic, emit.key, emit.value, [(SOURCE_HEADER, cause.encode())]


def dead_letters(
    app: App, dead: Sequence[DeadLetter], source: tuple[str, int], headers: Mapping[int, Headers]
) -> Iterable[Outgoing]:
    """The records for the dead-letter topic: the value as it was, where and why in the headers (KIP-1034).

    The key names topic, partition and offset, so that a repeat after a crash can be told; the original key is a header.
    """
    topic, partition = source
    for letter in dead:
        why: Headers = [
            ("__streams.errors.exception", type(letter.error).__name__.encode()),
            ("__streams.errors.message", str(letter.error).encode()),
            ("__streams.errors.topic", topic.encode()),
            ("__streams.errors.partition", str(partition).encode()),
            ("__streams.errors.offset", str(letter.offset).encode()),
            ("x-service", app.name.encode()),
        ]
        if letter.key is not None:
            why.append(("x-key", letter.key))
        key = f"{topic}:{partition}:{letter.offset}".encode()
        yield app.dead_letters, key, letter.value, [*headers.get(letter.offset, []), *why]


def original_headers(
    bootstrap: str, source: tuple[str, int], offsets: Sequence[int], security: Security = OPEN
) -> dict[int, Headers]:
    """The headers of the records at `offsets` (ascending, not empty), read from Kafka again.

    Only dead letters need headers; carrying them through Spark for every record costs three times the whole decoding.
    A record that Kafka has deleted meanwhile is not in the answer.
    """
    wanted, last = set(offsets), offsets[-1]
    found: dict[int, Headers] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "streamstate-dead-letters",
            "enable.auto.commit": False,
            **security.client(),
            **QUIET,
        }
    )
    try:
        consumer.assign([TopicPartition(*source, offsets[0])])
        at = -1
        while at < last and (message := consumer.poll(TIMEOUT_S)) is not None:
            if error := message.error():
                raise KafkaException(error)
            at = message.offset() or 0
            if at in wanted:
                found[at] = _listed(message.headers())
    finally:
        consumer.close()
    return found


def _listed(headers: dict[str, str | bytes | None] | Headers | None) -> Headers:
    return list(headers.items()) if isinstance(headers, dict) else headers or []
