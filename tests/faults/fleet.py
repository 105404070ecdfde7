"""A cluster with instances that start and stop separately: an instance of metrics is two processes, stream and API."""

import math
import signal
import time
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any

import psutil
import urllib3
from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from devkit import registry
from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.servers.child_process import Child
from services.events import LISTENING_EVENTS
from streamstate.cli.services import deployments
from streamstate.kafka.admin import Topics
from streamstate.settings import CommandSettings
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.verify.check import Check, Report
from tests.faults.load import known
from tests.waiting import PATIENCE_S, until

OTHERS = "others"
KNOWN = 100
"""So many users are read, who play no more."""

Ends = dict[str, dict[tuple[str, int], int]]
"""End offsets by service, topic and partition."""


class Fleet:
    """Streams and APIs by instance. `others` hosts the streams of the services but metrics."""

    topic = LISTENING_EVENTS

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.url = cluster.url
        self.bootstrap = cluster.kafka.bootstrap
        places = {f"{name}-{n}": at for name, some in cluster.addresses.items() for n, at in enumerate(some)}
        self.addresses = {name: at for name, at in places.items() if name.startswith("metrics")}
        self.streams = {name: cluster.host([f"{name}={at}"], f"stream-{name}") for name, at in self.addresses.items()}
        rest = [f"{name}={at}" for name, at in places.items() if name not in self.addresses]
        self.streams[OTHERS] = cluster.host(rest, "stream-others")
        self.apis = {api.name: api for api in cluster.apis}
        self._topics = Topics(cluster.kafka.bootstrap)
        self._client = connect(cluster.redis.url, 5.0)

    @cached_property
    def known(self) -> dict[int, Any]:
        """The profiles at the first request, of users without further plays."""
        return known(self.url, range(1, KNOWN + 1))

    def differences(self) -> list[str]:
        """What `make verify` finds."""
        reports = recounted(self.cluster.settings)
        return [str(difference) for report in reports for difference in report.differences]

    def start(self, *instances: str) -> None:
        """Start these instances, stream and API, and wait until the APIs answer."""
        for name in instances:
            for child in self.processes_of(name):
                child.start()
        for name in instances:
            self.apis[name].wait_until(partial(answers, f"http://{self.addresses[name]}/livez"), PATIENCE_S)

    def processes_of(self, instance: str) -> list[Child]:
        return [self.streams[instance], self.apis[instance]]

    def stop(self) -> None:
        for child in (*self.streams.values(), *self.apis.values(), self.cluster.gateway):
            child.kill()

    def owners(self) -> dict[int, str | None]:
        """The addresses of the owners of the partitions of metrics."""
        return {p: snapshot.owner for p, snapshot in self.store("metrics").read({p: [] for p in range(8)}).items()}

    def owned_by(self, *instances: str) -> bool:
        """Whether exactly these instances own the partitions of metrics."""
        return set(self.owners().values()) == {self.addresses[name] for name in instances}

    def plays(self, user: int) -> int:
        """How many plays of `user` the gateway tells."""
        answer = urllib3.request("GET", f"{self.cluster.url}/v1/users/{user}/metrics", timeout=10)
        return int(answer.json()["eventCount"]) if answer.status == 200 else 0

    def store(self, service: str) -> RedisStore:
        return RedisStore(self._client, service)

    def ends(self) -> Ends:
        """Where the topics of every service end now."""
        ends: Ends = {}
        for service in self.cluster.addresses:
            topics = registry.app(self.cluster.services[service]).topics
            counts = {topic: self._topics.partitions(topic) for topic in topics}
            ends[service] = self._topics.ends((topic, p) for topic, count in counts.items() for p in range(count))
        return ends

    def behind(self, ends: Ends) -> int:
        """How many records the states have yet to fold until all stand at `ends`."""
        missing = 0
        for service, places in ends.items():
            partitions = {partition for _, partition in places}
            snapshots = self.store(service).read({partition: [] for partition in partitions})
            stand = {(topic, p): snapshots[p].positions.get(topic, 0) for topic, p in places}
            missing += sum(max(0, end - stand[place]) for place, end in places.items())
        return missing

    def catch_up(self) -> float:
        """Wait until every state stands where the topics end now, while records are folded; the seconds it took."""
        started, left = time.monotonic(), math.inf
        ends: list[Ends] = []

        def folds() -> bool:
            nonlocal left
            try:
                ends[:] = ends or [self.ends()]
                before, left = left, self.behind(*ends)
            except (RedisError, KafkaException):
                # A client has yet to notice that its server is back.
                return False
            return left == 0 or left < before

        while left:
            until(folds, "the streams to catch up")
        return time.monotonic() - started


def recounted(settings: CommandSettings, *services: str) -> list[Report]:
    """What `make verify` finds in the states of `services`, or of all."""
    return [Check(each.recounted, settings).run() for each in deployments(settings, services)]


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        process.send_signal(number)
