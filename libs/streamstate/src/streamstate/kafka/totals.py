"""Totals over all partitions, published to a topic: the last one is right, and none goes down."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streamstate.app import App, Totals
from streamstate.kafka.admin import QUIET, TIMEOUT_S, Topics
from streamstate.kafka.security import OPEN, Security
from streamstate.state.reads import Fields
from streamstate.state.store import Snapshot, Store

Published = dict[tuple[str, str], int]
"""Totals by topic and field."""


def summed(totals: Sequence[Totals], snapshots: Iterable[Snapshot]) -> Published:
    """The totals in `snapshots`, whose values answer `reads`."""
    found: Counter[tuple[str, str]] = Counter()
    for snapshot in snapshots:
        for one, fields in zip(totals, snapshot.values, strict=True):
            found.update({(one.topic, field): number for field, number in fields.items()})
    return dict(found)


def reads(totals: Sequence[Totals]) -> Sequence[Fields]:
    """What is read of each partition."""
    return [Fields(one.key) for one in totals]


def risen(now: Published, before: Mapping[tuple[str, str], int]) -> Published:
    """Those totals of `now` that are above what was published `before`: a state that was set back rises again."""
    return {field: total for field, total in now.items() if total > before.get(field, -1)}


class Publisher:
    """The one who publishes the totals of an app; the one before it can publish no more from its making on.

    A transactional id does that: Kafka refuses the producer which had it before. What that one wrote is in the topic by
    then, and what is read of the state afterwards is no less.
    """

    def __init__(self, app: App, store: Store, topics: Topics, bootstrap: str, security: Security = OPEN) -> None:
        """Raises `Misconfigured` when a topic of totals does not exist, `KafkaException` when Kafka is away."""
        self._totals = app.totals
        self._store = store
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, **security.client(), **QUIET}
        places = [(one.topic, p) for one in app.totals for p in range(topics.partitions(one.topic))]
        self._out = Producer({**client, "transactional.id": f"{app.name}-totals", "partitioner": "murmur2_random"})
        self._out.init_transactions(TIMEOUT_S)
        self._published = published(client, places)

    def publish(self, partitions: int) -> None:
        """Publish what has risen in the state of `partitions`. Raises `KafkaException` when it is not accepted."""
        snapshots = self._store.read(dict.fromkeys(range(partitions), reads(self._totals))).values()
        fresh = risen(summed(self._totals, snapshots), self._published)
        if not fresh:
            return
        self._out.begin_transaction()
        for (topic, field), total in fresh.items():
            self._out.produce(topic, str(total).encode(), field.encode())
        self._out.commit_transaction(TIMEOUT_S)
        self._published |= fresh


def published(client: Mapping[str, str | int | float | bool], places: Sequence[tuple[str, int]]) -> Published:
    """The greatest totals in the topics and partitions `places`, also those of transactions that were given up."""
    found: Published = {}
    consumer = Consumer(
        {
            **client,
            "group.id": "streamstate-totals",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        left = len(places)
        while left:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            error, topic, key, value = message.error(), message.topic(), message.key(), message.value()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            left -= error is not None
            if error is None and topic and key and value:
                place = topic, key.decode()
                found[place] = max(found.get(place, 0), int(value))
    finally:
        consumer.close()
    return found
