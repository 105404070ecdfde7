"""The topic of deletions at Kafka."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from streamstate.app import App
from streamstate.erasure.deletions import Asked, Bound, DeletionRecord, Deletions, Input
from streamstate.errors import BadKey, Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import Outgoing, producer, send_all
from streamstate.kafka.reading import read_to_end
from streamstate.state.store import Origin

PARTITION = 0
"""All records are in one partition, whatever their keys, to have one order."""

log = structlog.get_logger()

_decode = msgspec.json.Decoder(DeletionRecord).decode


class DeletionTopic:
    """Reads and writes the topic `name`. For one thread."""

    def __init__(self, name: str, topics: Topics) -> None:
        self.deletions = Deletions()
        self._name = name
        self._topics = topics
        self._topic_id = ""
        self._next = OFFSET_BEGINNING

    def catch_up(self) -> list[DeletionRecord]:
        """Read to the present end; returns the new records. Raises `Misconfigured` where there is no such topic."""
        origin = self._origin()
        if origin.id != self._topic_id:
            self._topic_id, self._next, self.deletions = origin.id, OFFSET_BEGINNING, Deletions()
        place = self._name, PARTITION
        [end] = self._topics.ends([place]).values()
        if end <= max(self._next, 0):
            return []
        came = []
        for message in read_to_end(self._topics.bootstrap, {place: self._next}, self._topics.security):
            self._next = (message.offset() or 0) + 1
            try:
                came.append(_decode(message.value() or b""))
            except msgspec.MsgspecError:
                log.error("an invalid record of a deletion is ignored", topic=self._name, offset=self._next - 1)
                continue
            self.deletions.add(self._next - 1, came[-1])
        self._next = max(self._next, end)
        return came

    def present(self) -> Deletions:
        """All deletions by now: none without the topic, which may be made with the first deletion."""
        with suppress(Misconfigured):
            self.catch_up()
        return self.deletions

    def request(self, app: App, user: str) -> Sequence[DeletionRecord]:
        """Request the deletion of `user` from the state of `app`; returns the requests once Kafka has stored them."""
        self._origin()
        requests = _requests(app, user, self._topics)
        self.write(requests)
        return requests

    def asked(self, app: App, user: str) -> list[tuple[int, Asked]]:
        """The requested deletions of `user` from the state of `app`, by partition."""
        self.catch_up()
        return self.deletions.for_user(user, app.name)

    @property
    def end(self) -> int:
        """The next offset to read."""
        return max(self._next, 0)

    def write(self, deletions: Iterable[DeletionRecord]) -> None:
        """Returns when Kafka has stored all of `deletions`."""
        records: list[Outgoing] = [(self._name, each.key, msgspec.json.encode(each), []) for each in deletions]
        if records:
            send_all(producer(self._topics.bootstrap, self._topics.security), records, partition=PARTITION)

    def _origin(self) -> Origin:
        try:
            return self._topics.origin(self._name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            msg = f"the topic {self._name} may not be read; grant the Kafka user Describe, Read and Write"
            raise Misconfigured(msg) from error


def _requests(app: App, user: str, topics: Topics) -> Sequence[DeletionRecord]:
    """The requests that delete `user` from the state of `app`: none where `user` is no key of its topics."""
    bounds: dict[int, dict[str, Bound]] = {}
    for source in app.user_sources:
        try:
            key = source.key.parse(user)
        except BadKey:
            continue
        origin = topics.origin(source.topic)
        partition = source.partition(key, origin.partitions)
        bounds.setdefault(partition, {})[source.topic] = Bound(origin.id, source.key.encode(key), 0)
    places = [(topic, partition) for partition, by_topic in bounds.items() for topic in by_topic]
    for (topic, partition), end in topics.ends(places).items():
        bounds[partition][topic] = msgspec.structs.replace(bounds[partition][topic], offset=end)
    inputs = {}
    for topic in app.rekeyed if bounds else ():
        origin = topics.origin(topic)
        ends = topics.ends([(topic, number) for number in range(origin.partitions)])
        inputs[topic] = Input(origin.id, tuple(ends[topic, number] for number in range(origin.partitions)))
    return [DeletionRecord(user, app.name, number, by_topic, inputs=inputs) for number, by_topic in bounds.items()]
