"""What the tests do to a cluster and see of it from outside: feed, kill, wait, ask the gateway, read topics back."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import psutil
import urllib3
from confluent_kafka import Message, Producer

from devkit.cluster.local_cluster import LocalCluster, variables
from devkit.cluster.plan import Plan
from devkit.demo import CACHE
from devkit.events import feed, sample_events
from devkit.events.records import Event
from devkit.servers.child_process import Child
from streamstate.cli.services import deployments
from streamstate.kafka.admin import Topics
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.producer import producer
from streamstate.verify.check import Check
from streamstate.verify.difference import Difference
from tests.waiting import REQUEST_S, until


def local_cluster(home: Path, **plan: Any) -> LocalCluster:
    """By the plan, with the environment of this moment; it says nothing."""
    return LocalCluster(Plan(home, Path.cwd() / CACHE, **plan), say=lambda _line: None)


@dataclass
class Driving:
    """A running cluster, a producer into it, and an endless supply of seeded events."""

    cluster: LocalCluster
    out: Producer
    events: Iterator[Event]
    draw: Random

    @classmethod
    def fed(
        cls, cluster: LocalCluster, seed: int, count: int, users: int, now_ms: Callable[[], int], **more: int
    ) -> "Driving":
        """The cluster with names and the first `count` events of `users`, all of them folded."""
        catalogue = sample_events.Catalogue.make(seed, artists=60)
        clock = sample_events.backlog(count, 86_400_000, now_ms)
        events = sample_events.events(catalogue, seed, users, clock, **more)
        driving = cls(cluster, producer(cluster.kafka.bootstrap), events, Random(seed))
        feed.send_names(driving.out, sample_events.names(catalogue))
        driving.feed(islice(events, count))
        driving.settle()
        return driving

    def feed(self, events: Iterable[Event]) -> None:
        feed.send_events(self.out, events)

    def settle(self) -> None:
        """Wait until every state has reached the ends of its topics."""
        until(self.cluster.states().caught_up, "the streams to catch up")

    def get(self, path: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request("GET", f"{self.cluster.url}{path}", timeout=REQUEST_S, retries=False)

    def regions(self) -> dict[str, int]:
        """The totals that the service clicks answers."""
        return {row["region"]: row["clicks"] for row in self.get("/v1/regions").json()["regions"]}

    def environment(self, **settings: str) -> dict[str, str]:
        """Of a command beside the cluster."""
        servers = {"KAFKA": self.cluster.kafka.bootstrap, "REDIS": self.cluster.redis.url, "GATEWAY": self.cluster.url}
        return variables(servers | settings)

    def lines(self, url: str) -> list[str]:
        """The text at `url`, line by line."""
        return urllib3.request("GET", url, timeout=REQUEST_S, retries=False).data.decode().splitlines()

    def read(self, topic: str) -> list[Message]:
        """Every record of `topic`, partition by partition."""
        return read(self.cluster, topic)

    def differences(self, *services: str) -> list[Difference]:
        """The differences of `streamstate verify` in `services`, which must have records, or in all services."""
        settings = self.cluster.settings
        reports = [Check(of.app, settings).run() for of in deployments(settings, services)]
        counted = [report.records > 0 for report in reports]
        assert all(counted) if services else any(counted)
        return [difference for report in reports for difference in report.differences]


def below(child: Child) -> list[psutil.Process]:
    """The processes of `child`, itself first."""
    top = psutil.Process(child.pid)
    return [top, *top.children(recursive=True)]


def parts(stream: Child) -> dict[str, list[psutil.Process]]:
    """Driver, JVM and Python workers of a stream. The JVM starts other programs too, which end at once."""
    driver, *rest = below(stream)
    return {
        "driver": [driver],
        "JVM": [process for process in rest if process.name() == "java"],
        "worker": [each for each in rest if each.ppid() != driver.pid and each.name().startswith("python")],
    }


def strike(stream: Child, part: str, draw: Random) -> None:
    """kill -9 a process of this part of `stream`; a stream that has just started has no workers yet."""
    found: list[psutil.Process] = []

    def some() -> bool:
        found[:] = parts(stream)[part]
        return bool(found)

    until(some, f"{stream.name} to have a {part}")
    draw.choice(found).kill()


def read(cluster: LocalCluster, topic: str) -> list[Message]:
    """Every record of `topic`, partition by partition."""
    settings = cluster.settings
    return list(TopicHistory(Topics(settings.kafka)).whole(topic))


def headers(message: Message) -> dict[str, Any]:
    return dict(message.headers() or [])
