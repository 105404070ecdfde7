"""The declaration of a service in its `service.py`, used by demo, charts and documents."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """A Kafka topic. `partitions`: None for the number that the demo gives to all topics."""

    name: str
    partitions: int | None = None
    compacted: bool = False


@dataclass(frozen=True)
class Service:
    """A service: the topics that it reads, and those that it writes apart from its dead-letter topic.

    any_instance: whether each instance of the API answers for any key; the APIs are then scaled apart from the streams.
    """

    inputs: tuple[Topic, ...]
    outputs: tuple[Topic, ...] = ()
    any_instance: bool = False
