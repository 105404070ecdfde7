"""The map of a service: who owns which partition, and what can be asked. The gateway lives on it."""

from collections import defaultdict

import msgspec

from streamstate.app import App
from streamstate.kafka import Topics
from streamstate.state import Store

PATH = "/processors"


class Partition(msgspec.Struct):
    """One partition: its owner's address (None: nobody yet), the owner's epoch, next offsets by topic."""

    partition: int
    owner: str | None
    epoch: int
    ready: bool
    positions: dict[str, int]


class Processor(msgspec.Struct):
    """One instance and the partitions that it owns."""

    host: str
    port: int
    partitions: list[int]


class ViewEntry(msgspec.Struct):
    """One view: its path with `<key>` in it, the topic whose partitioning locates a key, and the key's type.

    `anywhere` says that any ready instance answers for any key, and that `/v1/many` does not.
    """

    name: str
    path: str
    topic: str
    key: str
    anywhere: bool = False


class Processors(msgspec.Struct):
    """The whole map; `topics` are the partition counts by topic, from Kafka."""

    service: str
    topics: dict[str, int]
    instances: list[Processor]
    partitions: list[Partition]
    views: list[ViewEntry]


def entries(app: App) -> list[ViewEntry]:
    """The views that are answered from the state of `app`, by the owner of the key's partition."""
    return [ViewEntry(view.name, view.path, view.topic, view.key.name) for view in app.views]


def processors(app: App, store: Store, topics: Topics, views: list[ViewEntry]) -> Processors:
    """The map as the state and Kafka have it now."""
    counts = {topic: topics.partitions(topic) for topic in app.topics}
    snapshots = store.read({partition: [] for partition in range(topics.widest(counts))})
    owned: dict[str, list[int]] = defaultdict(list)
    for partition, snapshot in snapshots.items():
        if snapshot.owner is not None:
            owned[snapshot.owner].append(partition)
    return Processors(
        app.name,
        counts,
        [Processor(*_split(address), partitions) for address, partitions in sorted(owned.items())],
        [Partition(p, one.owner, one.epoch, one.ready, dict(one.positions)) for p, one in snapshots.items()],
        views,
    )


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
