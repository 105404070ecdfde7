"""Totals over all partitions, published to a topic: the last total of a field is exact.

A total is a function of the state's positions in its topics. So the positions are committed in the transaction of the
totals, as offsets of a consumer group, and a state publishes once it has reached the committed positions: a restored
state, or a new build, waits until then, and corrects differences.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from streamstate.app import App, Totals
from streamstate.formats.writing import registering
from streamstate.kafka.admin import TIMEOUT_S, Topics
from streamstate.kafka.producer import producer, send_offsets, transaction
from streamstate.kafka.reading import read_to_end
from streamstate.releases.record import Publishing
from streamstate.state.operations import Fields
from streamstate.state.store import Snapshot, Store, positions_of
from streamstate.state.store import TopicPartition as Place

Published = dict[tuple[str, str], int]
"""Totals by topic and field."""


def summed(totals: Sequence[Totals], snapshots: Iterable[Snapshot]) -> Published:
    """The totals in `snapshots`, whose values are the results of `reads`."""
    sums: Counter[tuple[str, str]] = Counter()
    for snapshot in snapshots:
        for of_topic, fields in zip(totals, snapshot.values, strict=True):
            sums.update({(of_topic.topic, field): number for field, number in fields.items()})
    return dict(sums)


def reads(totals: Sequence[Totals]) -> Sequence[Fields]:
    return [Fields(of_topic.key) for of_topic in totals]


def last_published(totals: Sequence[Totals], topics: Topics) -> Published:
    """The published totals: the last total of each field in the topics of `totals`. Raises as `Publisher` does."""
    names = {of_topic.topic for of_topic in totals}
    places = {(name, p): OFFSET_BEGINNING for name in names for p in range(topics.partitions(name))}
    decode = {of_topic.topic: of_topic.derived.decode for of_topic in totals}
    last: dict[tuple[str, bytes], bytes | None] = {}
    for message in read_to_end(topics.bootstrap, places, topics.security):
        topic = message.topic() or ""
        key, value = decode[topic](message.key() or b"", message.value())
        last[topic, key] = value
    return {(topic, key.decode()): int(value) for (topic, key), value in last.items() if value is not None}


def corrections(published: Published, totals: Published) -> dict[tuple[str, str], int | None]:
    """The records to publish so that `totals` are the last published totals: None for a field that `totals` lack."""
    gone = dict.fromkeys(published.keys() - totals.keys())
    return gone | {field: total for field, total in totals.items() if published.get(field) != total}


def has_reached(positions: Mapping[Place, int], published: Mapping[Place, int]) -> bool:
    """Whether a state at `positions` has read all records behind the last `published` totals."""
    return all(positions.get(place, 0) >= offset for place, offset in published.items())


def _written(totals: Sequence[Totals], topics: Topics) -> bool:
    """Whether the topics of `totals` hold anything."""
    places = [(of_topic.topic, p) for of_topic in totals for p in range(topics.partitions(of_topic.topic))]
    return topics.begins(places) != topics.ends(places)


class Publisher:
    """The one publisher of an app's totals. Creating one fences the previous publisher, by its transactional id.

    The first publication has all totals, later publications the changed totals. The group `<group>-totals` has the
    positions of the last publication; without the group, and with totals in the topics, the next publisher waits until
    the state has read its topics up to their present ends.
    """

    def __init__(
        self, app: App, store: Store, topics: Topics, publishing: Callable[[], Publishing] | None = None
    ) -> None:
        """publishing: the release's outputs at present; None for all.

        Raises `Misconfigured` when a topic of totals does not exist, `KafkaException` when Kafka is away.

        Raises `Misconfigured` and `RegistryUnavailable` as the registration of a schema does.
        """
        self._totals = app.totals
        self._encode = {each.topic: registering(each.derived, each.topic).encode for each in app.totals}
        self._store = store
        self._last_published = partial(last_published, app.totals, topics)
        for of_topic in app.totals:
            topics.origin(of_topic.topic)
        security = topics.security
        client = {"bootstrap.servers": topics.bootstrap, **security.client()}
        self._out = producer(topics.bootstrap, security, f"{app.group}-totals")
        places = [TopicPartition(topic, p) for topic in app.topics for p in range(topics.partitions(topic))]
        group = Consumer({**client, "group.id": f"{app.group}-totals", "enable.auto.commit": False})
        try:
            committed = group.committed(places, timeout=TIMEOUT_S)
            self._group = group.consumer_group_metadata()
        finally:
            group.close()
        self._positions = {(place.topic, place.partition): place.offset for place in committed if place.offset >= 0}
        if not self._positions and _written(app.totals, topics):
            # Kafka forgets a group that was long unused: no published total counts records behind the present ends.
            self._positions = topics.ends((place.topic, place.partition) for place in places)
        self._published: Published = {}
        self._publishing = publishing or partial(Publishing, app.name)

    def publish(self, partitions: int) -> None:
        """Publish the changed totals in the state of `partitions`, unless the state is behind the last publication.

        A release does so while it publishes, and begins with all totals.

        Raises `KafkaException` when Kafka does not accept a record.
        """
        totals, positions = self._read(partitions)
        # After the state: the cuts of a later hand-over are then behind these positions.
        if not self._publishing().totals(positions):
            self._published = {}
            return
        if totals == self._published or not has_reached(positions, self._positions):
            return
        changed = {field: total for field, total in totals.items() if self._published.get(field) != total}
        self._send(changed, positions)
        self._published, self._positions = totals, positions

    def correct(self, partitions: int) -> None:
        """Publish all differences between the state of `partitions` and the topics, at any position of the state.

        A field missing in the state gets a null value. Raises `KafkaException` when Kafka does not accept a record.
        """
        totals, positions = self._read(partitions)
        self._send(corrections(self._last_published(), totals), positions)

    def _read(self, partitions: int) -> tuple[Published, dict[Place, int]]:
        """The totals of the state, and its positions."""
        snapshots = self._store.read(dict.fromkeys(range(partitions), reads(self._totals)))
        return summed(self._totals, snapshots.values()), positions_of(snapshots)

    def _send(self, totals: Mapping[tuple[str, str], int | None], positions: Mapping[Place, int]) -> None:
        offsets = [TopicPartition(*place, offset) for place, offset in positions.items()]
        with transaction(self._out):
            for (topic, field), total in totals.items():
                key, value = self._encode[topic](field.encode(), None if total is None else b"%d" % total)
                self._out.produce(topic, value, key)
            send_offsets(self._out, offsets, self._group)
