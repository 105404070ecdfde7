"""The topic of deletions at Kafka."""

from collections.abc import Iterable, Sequence

import msgspec
from confluent_kafka import OFFSET_BEGINNING

from streamstate.app import App
from streamstate.erasure.deletions import Bound, Deletion, Deletions
from streamstate.errors import BadKey, Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import Outgoing, producer, send_all
from streamstate.kafka.reading import read_to_end
from streamstate.kafka.security import Security
from streamstate.keys import partition_of

_decode = msgspec.json.Decoder(Deletion).decode


class DeletionTopic:
    """Reads and writes the topic `name`. For one thread."""

    def __init__(self, name: str, bootstrap: str, topics: Topics, security: Security) -> None:
        self.deletions = Deletions()
        self._name = name
        self._bootstrap = bootstrap
        self._topics = topics
        self._security = security
        self._topic_id = ""
        self._next = OFFSET_BEGINNING

    def catch_up(self) -> list[Deletion]:
        """Read on to the present end; returns what came. Raises `Misconfigured` for a topic that cannot be used."""
        origin = self._topics.origin(self._name)
        if origin.partitions != 1:
            msg = f"{self._name} has {origin.partitions} partitions, and its records need one order; make it with one"
            raise Misconfigured(msg)
        if origin.id != self._topic_id:
            self._topic_id, self._next, self.deletions = origin.id, OFFSET_BEGINNING, Deletions()
        place = self._name, 0
        [end] = self._topics.ends([place]).values()
        if end <= max(self._next, 0):
            return []
        came = []
        for message in read_to_end(self._bootstrap, {place: self._next}, self._security):
            deletion = _decode(message.value() or b"")
            self.deletions.add(message.offset() or 0, deletion)
            came.append(deletion)
            self._next = (message.offset() or 0) + 1
        self._next = max(self._next, end)
        return came

    @property
    def end(self) -> int:
        """The offset up to which it was read."""
        return max(self._next, 0)

    def write(self, deletions: Iterable[Deletion]) -> None:
        """Returns when Kafka has all of them for good."""
        records: list[Outgoing] = [(self._name, each.key, msgspec.json.encode(each), []) for each in deletions]
        if records:
            send_all(producer(self._bootstrap, self._security), records)


def requests(app: App, user: str, topics: Topics) -> Sequence[Deletion]:
    """The requests that delete `user` from the state of `app`: none where no key of its users is written so."""
    bounds: dict[int, dict[str, Bound]] = {}
    for source in (source for fold in app.folds if fold.users for source in fold.sources):
        try:
            key = source.key.encode(source.key.parse(user))
        except BadKey:
            continue
        origin = topics.origin(source.topic)
        partition = partition_of(key, origin.partitions)
        bounds.setdefault(partition, {})[source.topic] = Bound(origin.id, key, 0)
    places = [(topic, partition) for partition, by_topic in bounds.items() for topic in by_topic]
    for (topic, partition), end in topics.ends(places).items():
        bounds[partition][topic] = msgspec.structs.replace(bounds[partition][topic], offset=end)
    return [Deletion(user, app.name, partition, by_topic) for partition, by_topic in bounds.items()]
