"""Releases of services over topics of their own, beside whatever else uses the same servers."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException, Message, Producer

from devkit.child_process import Child
from devkit.local_cluster import LocalCluster
from devkit.topics import create as create_topics
from streamstate.app import App
from streamstate.cli.services import deployments
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.settings import CommandSettings
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.verify.check import Check
from tests.deployment import Start
from tests.integration.driving import read
from tests.waiting import until

PARTITIONS = 4


@dataclass(frozen=True)
class Releases:
    """Streams of `cluster`, made by `make`, and a producer into its topics."""

    cluster: LocalCluster
    make: Start
    out: Producer

    def read(self, topic: str) -> list[Message]:
        """All records of `topic`, by partition."""
        return read(self.cluster, topic)

    def create(self, *topics: str, partitions: int = PARTITIONS) -> None:
        """Create topics, and wait for their leaders."""
        bootstrap = self.cluster.kafka.bootstrap
        create_topics(bootstrap, {topic: {} for topic in topics}, partitions)
        known = Topics(bootstrap)

        def led() -> bool:
            try:
                return len(known.ends((topic, p) for topic in topics for p in range(partitions))) > 0
            except KafkaException:
                return False

        until(led, 30, "the new topics to have leaders")

    @contextmanager
    def released(self, app: App, name: str, topics: Mapping[str, str], **settings: str) -> Iterator[Child]:
        """A further release of `app`, until it has read all of its topics; its state is checked at the end."""
        other = renamed(app, name, topics)
        self.create(*{*topics.values(), other.dead_letters})
        formats = {"formats": json.loads(settings.get("FORMATS", "{}")), "registry": settings.get("REGISTRY", "")}
        own = {**self.cluster.settings.model_dump(), **formats, "name": name, "topics": topics}
        command = CommandSettings.model_validate(own)
        store = RedisStore(connect(self.cluster.redis.url, 5.0), name)
        stream = self.make(f"services.{app.name}", name, topics, GROUP=f"team.{name}", **settings)
        stream.start()
        try:
            yield stream
            (deployed,) = deployments(command, [app.name])
            width = max(deployed.topics.partitions(topic) for topic in other.topics)
            ends = deployed.topics.ends([(t, p) for t in other.topics for p in range(deployed.topics.partitions(t))])

            def reached() -> bool:
                snapshots = store.read({partition: [] for partition in range(width)})
                return all(snapshots[p].positions.get(topic, 0) == end for (topic, p), end in ends.items())

            until(reached, 120, f"{name} to catch up")
            report = Check(deployed.recounted, command).run()
            assert report.records > 0
            assert report.differences == []
            until(lambda: bool(deployed.topics.members(f"team.{name}")), 120, f"{name} to be in its group")
        finally:
            stream.stop()
