"""A service over topics of its own, whose records an archive keeps after Kafka has deleted them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

from devkit import topics
from devkit.cluster.states import States
from devkit.events import records
from devkit.lab.archived import archive, contents
from devkit.servers.child_process import Child, free_port
from services.events import LISTENING_EVENTS
from streamstate.app import App
from streamstate.cli.services import Deployment, deployments
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import producer
from streamstate.settings import CommandSettings
from streamstate.verify.check import Check
from streamstate.verify.redis_state import RedisState
from tests.deployment import Stream
from tests.integration.releases import Releases
from tests.waiting import until

PLAYS, USERS, PARTITIONS = 12_000, 40, 3


@dataclass
class Kept:
    """A service over topics of its own, whose archive is the folder `folder`; `before`: its state by Kafka alone."""

    releases: Releases
    app: App
    folder: Path
    name: str = field(default_factory=lambda: f"kept-{token_hex(4)}")
    before: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kafka = self.releases.cluster.kafka.bootstrap
        outputs = (*self.app.emits, *(totals.topic for totals in self.app.totals))
        self.names = {topic: f"{self.name}-{topic}" for topic in (*self.app.topics, *outputs)}
        dead_letters = renamed(self.app, self.name, self.names).dead_letters
        self.releases.create(*self.names.values(), dead_letters, partitions=PARTITIONS)
        inputs = {self.name: [self.names[topic] for topic in self.app.topics]}
        self.states = States(Topics(self.kafka), self.releases.cluster.redis.url, inputs)
        self.client = self.states.client

    @property
    def settings(self) -> CommandSettings:
        own = {"name": self.name, "topics": self.names, "archive": str(self.folder)}
        return self.releases.cluster.settings.model_copy(update=own)

    @cached_property
    def deployed(self) -> Deployment:
        [of] = deployments(self.settings, [self.app.name])
        return of

    @contextmanager
    def stream(self, make: Callable[..., Child] | None = None, **settings: str) -> Iterator[Stream]:
        port = free_port()
        own = {"ARCHIVE": str(self.folder), "STATUS_PORT": str(port), **settings}
        child = (make or self.releases.make)(f"services.{self.app.name}", self.name, self.names, **own)
        with child:
            yield Stream(child, port)

    def build(self, **settings: str) -> Stream:
        """A stream, ended when the state has all records."""
        with self.stream(None, **settings) as stream:
            self.settle()
        return stream

    def settle(self) -> None:
        until(self.states.caught_up, "the build")

    def keep(self, deleted: float = 0.5, **shares: float) -> None:
        """Archive the first part of each topic, by default 60 %, and delete the share `deleted` from Kafka."""
        of_topics = {self.names[topic]: shares.get(topic.replace("-", "_"), 0.6) for topic in self.app.topics}
        archive(str(self.folder), self.kafka, {topic: share for topic, share in of_topics.items() if share})
        ends = self.states.ends()[self.name]
        topics.cut(self.kafka, {place: int(deleted * end) for place, end in ends.items() if of_topics[place[0]]})

    def empty(self) -> None:
        self.client.delete(*self.client.scan_iter(f"{{{self.name}:*"))

    def contents(self) -> dict[str, object]:
        """All keys of the state, and its positions."""
        return contents(RedisState(self.client, self.name), range(PARTITIONS))

    def differences(self) -> list[Any]:
        report = Check(self.deployed.app, self.settings).run()
        assert report.records > 0
        return report.differences

    def play(self, count: int = PLAYS) -> None:
        out = producer(self.kafka)
        for number in range(count):
            play = records.event(number % USERS, number % 7, number % 11, number % 13, 1_750_000_000_000 + number)
            out.produce(self.names[LISTENING_EVENTS], play[1], play[0])
            out.poll(0)
        out.flush()

    def move(self) -> None:
        """Wait until the state has moved on."""
        before = self.states.folded()
        until(lambda: self.states.folded() > before, "a commit")
