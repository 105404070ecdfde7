"""Membership of an instance in a consumer group, which assigns partitions to owners."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamstate.errors import FencedInstance
from streamstate.kafka.admin import REPORTING, TIMEOUT_S, AdminConnection
from streamstate.kafka.security import OPEN, Security

log = structlog.get_logger()

_LEAVE_S = 3.0
_PAUSE_S = 0.2
_CONFIRMED_S = 0.5


Held = frozenset[tuple[str, int]]
"""Assigned partitions: topic and number."""


@dataclass
class Partitions:
    """The assigned partitions (`known` after the first assignment); `changed` is set until the query follows."""

    held: frozenset[int] = frozenset()
    known: bool = False
    changed: threading.Event = field(default_factory=threading.Event)

    def update(self, held: Held) -> None:
        self.held = frozenset(partition for _, partition in held)
        self.known = True
        self.changed.set()


class Membership:
    """An instance's membership in a consumer group.

    It joins the group for topics (for an app, its widest topic), as a static member, reads no records, and calls
    `changed` with its partitions whenever they change. It also commits the stored offsets, so that Kafka's own tools
    show the lag.

    A static member keeps its partitions when the process dies and comes back within `session_timeout_ms`. `stop` leaves
    the group: with the state in Redis, another instance takes the partitions over within a second or two, while kept
    partitions stay unfolded until the process is back, or the timeout is over.

    Kafka refuses a client for good when another client has joined under its name, and the present owner of its
    partitions must not be disturbed. But Kafka may also refuse a client whose session expired while the broker was
    away, or the process hung: librdkafka then forgets its member id, and may send a heartbeat before joining again. So
    a refused client is replaced by a new client, unless the group has another member of this name.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        instance: str,
        session_timeout_ms: int,
        changed: Callable[[Held], None],
        security: Security = OPEN,
    ) -> None:
        self._connection = AdminConnection(bootstrap, security)
        self._group = group
        self._instance = instance
        self._session_timeout_ms = session_timeout_ms
        self._changed = changed
        self._member = ""
        self._refusal: str | None = None
        self._held: Held = frozenset()
        self._positions: Mapping[tuple[str, int], int] = {}
        self._stopping = threading.Event()

    def start(self, *topics: str, client_id: str = REPORTING) -> None:
        """Join the group for `topics`."""
        self._client_id = client_id
        self._thread = threading.Thread(target=self._run, args=(topics,), name=f"membership-{self._group}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group; takes about a quarter of a second."""
        self._stopping.set()
        self._thread.join()

    def commit(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Tell Kafka how far the state is, soon; a failure is only logged, since the truth is in the store."""
        self._positions = positions

    def require(self) -> None:
        """Raise `FencedInstance` when another process has this instance's name."""
        if self._refusal is not None:
            msg = f"the group has no place for {self._instance} any more ({self._refusal}); start the process again"
            raise FencedInstance(msg)

    def _run(self, topics: Sequence[str]) -> None:
        while not self._stopping.is_set():
            refusal = self._be_member(topics)
            self._update(frozenset())
            if refusal is not None and self._taken():
                self._refusal = refusal
                return

    def _be_member(self, topics: Sequence[str]) -> str | None:
        """Join, and stay until the process stops, the files of `security` change, or Kafka refuses the client (why).

        As a static member, the next client has the same place.
        """
        admin = self._connection.admin()
        consumer = Consumer(
            {
                **self._connection.properties,
                "client.id": self._client_id,
                "group.id": self._group,
                "group.instance.id": self._instance,
                "group.protocol": "classic",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": self._session_timeout_ms,
                "heartbeat.interval.ms": self._session_timeout_ms // 5,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "on_commit": self._on_commit,
            }
        )
        try:
            consumer.subscribe([*topics], on_assign=self._on_assign, on_revoke=self._on_gone, on_lost=self._on_gone)
            while not self._stopping.is_set():
                message = consumer.poll(0.2)
                if message is not None and (error := message.error()) is not None:
                    log.warning("the consumer group reports a problem", reason=error.str())
                    # The error object does not say that it is fatal.
                    if error.code() == KafkaError._FATAL:
                        return error.str()
                self._commit(consumer)
                if self._connection.admin() is not admin:
                    return None
            self._leave(consumer)
        finally:
            consumer.close()
        return None

    def _leave(self, consumer: Consumer) -> None:
        # A static member leaves by unsubscribing, once it has no partitions, and not by closing.
        consumer.unsubscribe()
        end = time.monotonic() + _LEAVE_S
        while self._held and time.monotonic() < end:
            consumer.poll(0.1)

    def _taken(self) -> bool:
        """Whether the group has another member of this instance's name; waits for the group's answer."""
        while not self._stopping.wait(_PAUSE_S):
            try:
                asked = self._connection.admin().describe_consumer_groups([self._group], request_timeout=TIMEOUT_S)
                members = asked[self._group].result().members
            except KafkaException as error:
                log.warning("the consumer group does not list its members", reason=str(error))
            else:
                return any(m.group_instance_id == self._instance and m.member_id != self._member for m in members)
        return False

    def _commit(self, consumer: Consumer) -> None:
        positions, self._positions = self._positions, {}
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
        try:
            if offsets and _known(consumer, offsets):
                consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._on_commit(error.args[0], offsets)

    def _on_commit(self, error: KafkaError | None, _offsets: list[TopicPartition]) -> None:
        if error is not None:
            log.warning("the consumer group did not take the offsets", reason=error.str())

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._member = consumer.memberid()
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._update(self._held | {(p.topic, p.partition) for p in partitions})

    def _on_gone(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._update(self._held - {(p.topic, p.partition) for p in partitions})
        consumer.incremental_unassign(partitions)

    def _update(self, held: Held) -> None:
        self._held = held
        self._changed(held)


def _known(consumer: Consumer, places: list[TopicPartition]) -> bool:
    """Whether the group's coordinator answers, and has given this client a member id.

    A commit would wait in the client for an unreachable coordinator, and go out while the client joins anew: Kafka
    would refuse the commit as a stranger's, and the client would not learn its new member id.
    """
    consumer.committed(places, timeout=_CONFIRMED_S)
    return bool(consumer.memberid())
