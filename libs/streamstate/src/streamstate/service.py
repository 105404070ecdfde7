"""What a service says of itself in its `service.py`, for all who set services up: demo, charts, documents."""

from dataclasses import dataclass

from pydantic_settings import BaseSettings


@dataclass(frozen=True)
class Topic:
    """A Kafka topic. `partitions`: a number of its own, None where that of all others will do."""

    name: str
    partitions: int | None = None
    compacted: bool = False


@dataclass(frozen=True)
class Service:
    """A service: the topics that it reads, and those that it writes apart from its dead letters.

    settings: settings of its own, of the stream and the API alike. any_instance: whether each instance of the API
    answers for any key; one stream is enough then, and the APIs are scaled apart.
    """

    inputs: tuple[Topic, ...]
    outputs: tuple[Topic, ...] = ()
    settings: type[BaseSettings] | None = None
    any_instance: bool = False
