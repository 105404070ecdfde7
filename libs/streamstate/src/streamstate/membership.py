"""The place of an instance in a consumer group, which decides who owns which partition."""

import threading
import time
from collections.abc import Callable, Mapping

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamstate.errors import Ousted
from streamstate.kafka import QUIET
from streamstate.security import OPEN, Security

log = structlog.get_logger()

_LEAVE_S = 3.0
_CONFIRMED_S = 1.0


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
            if offsets and self._is_member(offsets):
                self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._report(error.args[0])

    def _is_member(self, places: list[TopicPartition]) -> bool:
        """Whether the group's coordinator answers, and knows this client.

        A commit would wait in the client for a coordinator that is away, and go out even when the session was lost
        meanwhile: Kafka takes it for one of a stranger with this name, and refuses the client for good.
        """
        self._consumer.committed(places, timeout=_CONFIRMED_S)
        return bool(self._consumer.memberid())

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
