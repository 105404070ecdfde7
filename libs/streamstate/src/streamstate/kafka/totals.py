"""Totals over all partitions, published to a topic: the last one is exact.

A total is a function of how far the state has read its topics. So these positions are committed in the transaction of
the totals, as offsets of a consumer group, and a state publishes when it has reached them: one that was set back, or is
built anew, waits until then, and corrects what it finds to be different.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

from streamstate.app import App, Totals
from streamstate.kafka.admin import QUIET, TIMEOUT_S, Topics
from streamstate.kafka.security import OPEN, Security
from streamstate.state.operations import Fields
from streamstate.state.store import Snapshot, Store
from streamstate.state.store import TopicPartition as Place

Published = dict[tuple[str, str], int]
"""Totals by topic and field."""


def summed(totals: Sequence[Totals], snapshots: Iterable[Snapshot]) -> Published:
    """The totals in `snapshots`, whose values answer `reads`."""
    sums: Counter[tuple[str, str]] = Counter()
    for snapshot in snapshots:
        for of_topic, fields in zip(totals, snapshot.values, strict=True):
            sums.update({(of_topic.topic, field): number for field, number in fields.items()})
    return dict(sums)


def reads(totals: Sequence[Totals]) -> Sequence[Fields]:
    """What is read of each partition."""
    return [Fields(of_topic.key) for of_topic in totals]


def has_reached(positions: Mapping[Place, int], published: Mapping[Place, int]) -> bool:
    """Whether a state at `positions` has read all that the totals `published` last were made of."""
    return all(positions.get(place, 0) >= offset for place, offset in published.items())


class Publisher:
    """The one publisher of an app's totals. Creating one fences the previous publisher, by its transactional id.

    The first publication has all totals, later ones those that changed. The group `<app>-totals` has the positions of
    the last publication; without that group, the next publisher begins anew.
    """

    def __init__(self, app: App, store: Store, topics: Topics, bootstrap: str, security: Security = OPEN) -> None:
        """Raises `Misconfigured` when a topic of totals does not exist, `KafkaException` when Kafka is away."""
        self._totals = app.totals
        self._store = store
        for of_topic in app.totals:
            topics.origin(of_topic.topic)
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, **security.client(), **QUIET}
        self._out = Producer({**client, "transactional.id": f"{app.name}-totals", "partitioner": "murmur2_random"})
        self._out.init_transactions(TIMEOUT_S)
        places = [TopicPartition(topic, p) for topic in app.topics for p in range(topics.partitions(topic))]
        group = Consumer({**client, "group.id": f"{app.name}-totals", "enable.auto.commit": False})
        try:
            committed = group.committed(places, timeout=TIMEOUT_S)
            self._group = group.consumer_group_metadata()
        finally:
            group.close()
        self._positions = {(place.topic, place.partition): place.offset for place in committed if place.offset >= 0}
        self._published: Published = {}

    def publish(self, partitions: int) -> None:
        """Publish what differs in the state of `partitions`, unless that is behind what was published.

        Raises `KafkaException` when Kafka does not accept it.
        """
        snapshots = self._store.read(dict.fromkeys(range(partitions), reads(self._totals)))
        positions = {
            (topic, p): offset for p, snapshot in snapshots.items() for topic, offset in snapshot.positions.items()
        }
        totals = summed(self._totals, snapshots.values())
        if totals == self._published or not has_reached(positions, self._positions):
            return
        self._out.begin_transaction()
        for (topic, field), total in totals.items():
            if self._published.get((topic, field)) != total:
                self._out.produce(topic, str(total).encode(), field.encode())
        offsets = [TopicPartition(*place, offset) for place, offset in positions.items()]
        self._out.send_offsets_to_transaction(offsets, self._group, TIMEOUT_S)
        self._out.commit_transaction(TIMEOUT_S)
        self._published, self._positions = totals, positions
