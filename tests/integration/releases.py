"""Releases of services over topics of their own, beside whatever else uses the same servers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message, Producer
from typer.testing import CliRunner

from devkit.cluster.local_cluster import LocalCluster, variables
from devkit.cluster.states import States
from devkit.servers.child_process import Child
from devkit.topics import create as create_topics
from streamstate.app import App
from streamstate.cli.main import app as streamstate
from streamstate.cli.services import deployments
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.settings import CommandSettings
from streamstate.state.redis_connections import connect
from streamstate.verify.check import Check
from tests.deployment import Start
from tests.integration.driving import read
from tests.waiting import PATIENCE_S, until

PARTITIONS = 4

KILLED = """
import os, signal, sys
from streamstate.cli import main
from streamstate.releases.pointer import Pointer

number, after = int(sys.argv.pop(1)), sys.argv.pop(1) == "after"
writes, replace = [], Pointer.replace

def killed(self, *records):
    writes.append(1)
    if len(writes) == number and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    stored = replace(self, *records)
    if len(writes) == number:
        os.kill(os.getpid(), signal.SIGKILL)
    return stored

Pointer.replace = killed
main.main()
"""


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
        Topics(bootstrap).ends((topic, p) for topic in topics for p in range(partitions))

    @contextmanager
    def released(self, app: App, name: str, topics: Mapping[str, str], **settings: str) -> Iterator[Child]:
        """A further release of `app`, until it has read all of its topics; its state is checked at the end."""
        other = renamed(app, name, topics)
        self.create(*{*topics.values(), other.dead_letters})
        formats = {"formats": json.loads(settings.get("FORMATS", "{}")), "registry": settings.get("REGISTRY", "")}
        own = {**self.cluster.settings.model_dump(), **formats, "name": name, "topics": topics}
        command = CommandSettings.model_validate(own)
        stream = self.make(f"services.{app.name}", name, topics, GROUP=f"team.{name}", **settings)
        stream.start()
        try:
            yield stream
            (deployed,) = deployments(command, [app.name])
            states = States(deployed.topics, self.cluster.redis.url, {name: other.topics})
            until(states.caught_up, f"{name} to catch up")
            report = Check(deployed.app, command).run()
            assert report.records > 0
            assert report.differences == []
            until(lambda: bool(deployed.topics.members(f"team.{name}")), f"{name} to be in its group")
        finally:
            stream.stop()


class Command:
    """`streamstate` for the service in `package`."""

    def __init__(self, releases: Releases, package: str, **further: str) -> None:
        settings = releases.cluster.settings
        own = {"KAFKA": settings.kafka, "REDIS": settings.redis, "PACKAGE": package, **further}
        self._environment = variables(own)
        self._redis: Any = connect(settings.redis, 5.0)

    def run(self, *arguments: str, **settings: str) -> Any:
        """The JSON of a command that succeeds."""
        done = CliRunner().invoke(streamstate, [*arguments, "--json"], env=self._environment | variables(settings))
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def without_room(self, *arguments: str) -> None:
        """The command, with a Redis that is too full for another state."""
        used = self._redis.info("memory")["used_memory"]
        self._redis.config_set("maxmemory", int(1.05 * used))
        try:
            assert "raise maxmemory first" in self.refused(*arguments)
        finally:
            self._redis.config_set("maxmemory", 0)

    def refused(self, *arguments: str) -> str:
        """The error of a command that changes nothing."""
        done = CliRunner().invoke(streamstate, arguments, env=self._environment)
        assert done.exit_code == 1
        return done.stderr

    def killed(self, write: int, when: str, *arguments: str) -> None:
        """The command, killed before or after one of its writes."""
        argv = [sys.executable, "-c", KILLED, str(write), when, *arguments]
        environment = os.environ | self._environment
        assert subprocess.run(argv, env=environment, timeout=PATIENCE_S, check=False).returncode == -9
