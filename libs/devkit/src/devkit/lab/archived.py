"""Plays in Kafka and in an archive, and the states that are built from both."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions

from devkit import topics
from devkit.cluster.local_cluster import LocalCluster
from devkit.cluster.states import States
from devkit.demo import say
from devkit.lab.plays import Data
from devkit.servers.child_process import Child
from devkit.servers.kafka import Kafka
from services.events import LISTENING_EVENTS
from services.metrics.model import APP
from streamstate import bootstrap
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import batch, row
from streamstate.history.archive.segments import Segment
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.security import OPEN
from streamstate.settings import CommandSettings
from streamstate.state.redis_connections import connect
from streamstate.state.store import TopicPartition
from streamstate.verify.keys import chunks
from streamstate.verify.redis_state import RedisState

LONGEST_S = 1_800
LEAST_EVENTS = 500_000
"""Events of a run with measured times: the start of a process takes the time of fewer."""

_UNEQUAL = ("owner", "epoch", "begun", "ended", "target", "placed")
"""Fields of a partition that differ between two builds."""


def widen(kafka: Kafka, partitions: int) -> None:
    """Give the topic of plays so many partitions, while it is empty. Returns when producers see them."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for widened in admin.create_partitions([NewPartitions(LISTENING_EVENTS, partitions)]).values():
        widened.result()
    kafka.wait_until(
        lambda: len(admin.list_topics(LISTENING_EVENTS).topics[LISTENING_EVENTS].partitions) == partitions, 30
    )


def contents(state: RedisState, partitions: Iterable[int]) -> dict[str, object]:
    """All keys of `partitions`, without the fields of partitions that differ between two builds."""
    values: dict[str, object] = {}
    for partition in partitions:
        for keys in chunks(sorted(state.keys(partition))):
            values |= {f"{partition}:{key}": v for key, v in zip(keys, state.read(partition, keys).values, strict=True)}
        fields = state.read(partition, []).held
        values |= {f"{partition}:{name}": value for name, value in fields.items() if not name.startswith(_UNEQUAL)}
    return values


def archive(folder: str, kafka: str, shares: Mapping[str, float], files: int = 3) -> dict[tuple[str, int], int]:
    """Archive the first part of each partition of topics, in several files; returns the ends by topic and partition.

    shares: the archived share (0 to 1) by topic.
    """
    metadata, target = bootstrap.topics(kafka, OPEN), Archive(folder)
    history, ends = TopicHistory(metadata), {}
    for topic, share in shares.items():
        origin = metadata.origin(topic)
        places = [(topic, partition) for partition in range(origin.partitions)]
        for place, end in metadata.ends(places).items():
            with history.log(place) as log:
                records = list(log.up_to(end))
            ends[place] = round(end * share)
            for first, until in pairwise(sorted({ends[place] * number // files for number in range(files + 1)})):
                rows = [row(message) for message in records if first <= (message.offset() or 0) < until]
                target.write(place, Segment(first, until - 1), origin.id, [batch(rows)])
    return ends


@dataclass(frozen=True)
class HistoryLab:
    """Servers with the plays of `data`. archive: the folder of their archive. kills: of a stream in each part."""

    cluster: LocalCluster
    data: Data
    archive: Path
    kills: int

    @property
    def events(self) -> int:
        """The number of plays."""
        return len(self.data.rows)

    @property
    def settings(self) -> CommandSettings:
        """The settings of commands with the archive."""
        return self.cluster.settings.model_copy(update={"archive": str(self.archive)})

    @cached_property
    def history(self) -> TopicHistory:
        """Archive and Kafka."""
        settings = self.settings
        return bootstrap.history(settings, bootstrap.topics(settings.kafka, settings.security))

    @cached_property
    def ends(self) -> Mapping[TopicPartition, int]:
        """The ends of the partitions of the plays, before a part appends plays."""
        return self.states.ends()[APP.name]

    @cached_property
    def states(self) -> States:
        """The state of metrics."""
        return self.cluster.states(APP.name)

    def keep(self) -> None:
        """Archive all plays."""
        say("archiving the plays")
        archive(str(self.archive), self.cluster.kafka.bootstrap, {LISTENING_EVENTS: 1}, files=1)

    def cut(self) -> None:
        """Delete the first half of each partition from Kafka, as retention does."""
        topics.cut(self.cluster.kafka.bootstrap, {place: end // 2 for place, end in self.ends.items()})

    def empty(self) -> None:
        """Empty Redis."""
        with connect(self.cluster.redis.url, 60.0) as client:
            client.flushall()

    def contents(self) -> dict[str, object]:
        """All keys of the state, as `contents`."""
        with connect(self.cluster.redis.url, 60.0) as client:
            return contents(RedisState(client, APP.name), [partition for _, partition in self.ends])

    @contextmanager
    def building(self, folded: int, **settings: str) -> Iterator[Child]:
        """A stream of metrics with the archive and `settings`, when it has folded so many plays."""
        with self.cluster.of_services([APP.name], ARCHIVE=str(self.archive), **settings) as stream:
            stream.wait_until(lambda: self.states.folded() >= folded, LONGEST_S)
            yield stream
