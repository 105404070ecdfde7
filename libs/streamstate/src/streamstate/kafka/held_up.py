"""Partitions whose next record waits for a schema: left out until the registry answers."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Message

from streamstate.app import App, Source
from streamstate.errors import RegistryUnavailable
from streamstate.formats.reading import FormatDecoder, waits
from streamstate.kafka.admin import Topics
from streamstate.kafka.reading import read_to_end
from streamstate.keys.framed import Framed
from streamstate.processing.decode import raw_record
from streamstate.state.store import TopicPartition


class HeldUp:
    """The partitions of `app` that wait for the schema registry."""

    def __init__(self, app: App, topics: Topics) -> None:
        self._folds = [fold.topics for fold in app.folds]
        self._sources: Mapping[str, Source[Any, Any]] = {
            source.topic: source
            for source in app.sources
            if isinstance(source.decode, FormatDecoder) or isinstance(source.key, Framed)
        }
        self._topics = topics
        self._suspected = False
        self._waiting: dict[TopicPartition, Message] = {}
        self._why = ""

    @property
    def places(self) -> list[str]:
        """The waiting topics and partitions."""
        return [f"{topic}:{partition}" for topic, partition in sorted(self._waiting)]

    @property
    def reason(self) -> str:
        """The registry's error, and the waiting topics and partitions; empty without any."""
        if not self._waiting:
            return ""
        return f"{self._why}; these partitions wait for a schema: {', '.join(self.places)}"

    def suspect(self, reason: str) -> None:
        """A query ended for `reason`."""
        self._suspected = RegistryUnavailable.__name__ in reason

    def leave_out(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """`offsets` without the waiting partitions, and without the same partitions of topics merged with theirs.

        Kafka is asked for the next records only after a query ended for a schema. Raises `KafkaException`.
        """
        records = self._next_records(offsets) if self._suspected or self._waiting else {}
        self._waiting = {place: record for place, record in records.items() if self._waits(place, record)}
        self._suspected = False
        left_out = {(t, p) for topic, p in self._waiting for topics in self._folds if topic in topics for t in topics}
        return {place: offset for place, offset in offsets.items() if place not in left_out}

    def can_resume(self) -> bool:
        """Whether a waiting partition can go on."""
        return any(not self._waits(place, record) for place, record in self._waiting.items())

    def _waits(self, place: TopicPartition, record: Message) -> bool:
        source = self._sources[place[0]]
        _, _, key, value = raw_record(record, header_ids=source.header_ids)
        why = waits(source, key, value)
        self._why = why or self._why
        return bool(why)

    def _next_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Message]:
        starts = {place: offset for place, offset in offsets.items() if place[0] in self._sources}
        security = self._topics.security
        records = {
            place: next(read_to_end(self._topics.bootstrap, {place: offset}, security), None)
            for place, offset in starts.items()
        }
        return {place: record for place, record in records.items() if record is not None}
