"""What is asked of Kafka apart from the records: partition counts, end offsets, producing, dead letters, membership."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from streamstate.app import App, Emit
from streamstate.errors import Misconfigured, Ousted
from streamstate.processing import DeadLetter
from streamstate.security import OPEN, Security

log = structlog.get_logger()

SOURCE_HEADER = "streamstate.source"
TIMEOUT_S = 10.0
_LEAVE_S = 3.0
QUIET = {"log_level": 3}


class Topics:
    """Partition counts from Kafka's metadata, remembered for `ttl` seconds. Safe for threads."""

    def __init__(self, bootstrap: str, ttl: float = 60.0, security: Security = OPEN) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **security.client(), **QUIET})
        self._ttl = ttl
        self._known: dict[str, tuple[float, int]] = {}

    def partitions(self, topic: str) -> int:
        """How many partitions `topic` has. Raises `Misconfigured` for a topic that does not exist.

        While Kafka is away, a count that was known before goes on being used: partitions are never taken away.
        """
        read_at, count = self._known.get(topic, (0.0, 0))
        if count and time.monotonic() - read_at < self._ttl:
            return count
        try:
            found = self._admin.list_topics(topic, timeout=TIMEOUT_S if not count else 1.0).topics[topic]
        except KafkaException:
            if not count:
                raise
            self._known[topic] = (time.monotonic(), count)
            return count
        if found.error is not None:
            msg = f"the topic {topic} cannot be read ({found.error.str()}); create it or correct its name"
            raise Misconfigured(msg)
        self._known[topic] = (time.monotonic(), len(found.partitions))
        return len(found.partitions)

    def widest(self, topics: Iterable[str]) -> int:
        """The partitions of the widest of `topics`: as many as an app over them has."""
        return max(map(self.partitions, topics))

    def begins(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The first offsets that there still are, of (topic, partition)."""
        return self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # it has no annotations

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The end offsets of (topic, partition): of what is committed, for no more can be read."""
        return self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # it has no annotations

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


class Membership:
    """The place of an instance in the app's consumer group, which decides who owns which partition.

    It joins the group with the app's widest topic, as a static member, reads no records, and calls `changed` with the
    partitions that it holds whenever they change. It also commits the stored offsets, so that Kafka's own tools
    show the lag.

    As a static member it keeps its place when the process dies and comes back within `session_timeout_ms`: nothing
    moves then. After `stop` it has left: with the state in Redis, taking partitions over costs the others a second or
    two, while a place that is kept leaves them unfolded until the process is back, or the timeout is over.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        instance: str,
        session_timeout_ms: int,
        changed: Callable[[frozenset[int]], None],
        security: Security = OPEN,
    ) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.instance.id": instance,
                "group.protocol": "classic",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": session_timeout_ms // 5,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **security.client(),
                **QUIET,
            }
        )
        self._instance = instance
        self._ousted: str | None = None
        self._changed = changed
        self._held: frozenset[int] = frozenset()
        self._positions: Mapping[tuple[str, int], int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"membership-{group}", daemon=True)

    def start(self, topic: str) -> None:
        """Join the group for `topic`."""
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_gone, on_lost=self._on_gone)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group; takes about a quarter of a second."""
        self._stopping.set()
        self._thread.join()
        if self._ousted is not None:
            self._consumer.close()
            return
        # A static member that only closes does not leave; one that unsubscribes does, when it has nothing any more.
        self._consumer.unsubscribe()
        end = time.monotonic() + _LEAVE_S
        while self._held and time.monotonic() < end:
            self._consumer.poll(0.1)
        self._consumer.close()

    def commit(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Tell Kafka how far the state is, soon; a failure is only logged, since the truth is in the store."""
        self._positions = positions

    def require(self) -> None:
        """Raise `Ousted` when this process cannot be a member any more."""
        if self._ousted is not None:
            msg = f"the group has no place for {self._instance} any more ({self._ousted}); start the process again"
            raise Ousted(msg)

    def _run(self) -> None:
        while not self._stopping.is_set() and self._ousted is None:
            message = self._consumer.poll(0.2)
            if message is not None and (error := message.error()) is not None:
                self._report(error)
            self._commit()

    def _report(self, error: KafkaError) -> None:
        log.warning("the consumer group reports a problem", reason=error.str())
        # Of an error that `poll` brings, the client does not say that it is fatal.
        if error.fatal() or error.code() == KafkaError._FATAL:
            # A static member that was silent for too long and speaks again is refused for good: its client is of no
            # more use, and whoever holds its partitions now must not be disturbed.
            self._ousted = error.str()

    def _commit(self) -> None:
        # Here and not in the caller's thread: the client lets one thread at a time in, and `poll` holds the place.
        positions, self._positions = self._positions, {}
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
        try:
            if offsets:
                self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._report(error.args[0])

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._update(self._held | {p.partition for p in partitions})

    def _on_gone(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._update(self._held - {p.partition for p in partitions})
        consumer.incremental_unassign(partitions)

    def _update(self, held: frozenset[int]) -> None:
        self._held = held
        self._changed(held)
