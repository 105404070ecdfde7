"""The history of topics in memory, as `verify` reads it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from streamstate.app import App
from streamstate.processing.decode import RawRecord
from streamstate.state.store import Origin, TopicPartition
from streamstate.verify.partition import Inputs


@dataclass
class MemoryLog:
    """The log of a partition."""

    messages: Iterator[Message]
    ahead: Message | None = None

    def __enter__(self) -> "MemoryLog":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def up_to(self, offset: int) -> Iterator[Message]:
        # A record without a value is false.
        while (message := self.ahead if self.ahead is not None else next(self.messages, None)) is not None:
            self.ahead = message
            if (message.offset() or 0) >= offset:
                return
            self.ahead = None
            yield message


@dataclass
class MemoryHistory:
    """Records by topic and partition, and the refusals of a stream, by offset."""

    records: Mapping[TopicPartition, Sequence[Message]]
    refused: Mapping[TopicPartition, Mapping[int, Any]]

    def log(self, place: TopicPartition, *, emptied: bool) -> MemoryLog:
        assert emptied in (True, False)
        return MemoryLog(iter(self.records.get(place, ())))

    def read(self, _origins: object, _claims: object) -> Mapping[TopicPartition, Mapping[int, Any]]:
        return self.refused


def message(topic: str, partition: int, record: RawRecord, headers: Any = None) -> Message:
    offset, time, key, value = record
    place: Any = {"topic": topic, "partition": partition, "offset": offset, "timestamp": (1, time)}
    return Message(**place, key=key, value=value, headers=headers)


def inputs(
    app: App,
    records: Iterable[Message],
    partitions: int = 1,
    refused: Mapping[TopicPartition, Mapping[int, Any]] = {},
) -> Inputs:
    """The inputs of a replay of `records`; the id of a topic is its name."""
    by_place: dict[TopicPartition, list[Message]] = {}
    for each in records:
        by_place.setdefault((str(each.topic()), each.partition() or 0), []).append(each)
    history: Any = MemoryHistory(by_place, refused)
    return Inputs(app, {topic: Origin(topic, partitions) for topic in app.topics}, history, history, {})
