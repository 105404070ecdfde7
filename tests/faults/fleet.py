"""A cluster whose instances start and stop one by one: an instance of metrics is two processes, stream and API."""

import signal
import time
from collections.abc import Iterable
from functools import partial

import psutil
import urllib3
from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from devkit import registry
from devkit.child_process import Child
from devkit.local_cluster import LocalCluster, answers
from streamstate.kafka.admin import Topics
from streamstate.state.redis import RedisStore, connect
from tests.integration.driving import eventually

OTHERS = "others"
SETTLED_S = 90

Ends = dict[str, dict[tuple[str, int], int]]
"""End offsets by service, topic and partition."""


class Fleet:
    """Streams and APIs by instance. `others` hosts the streams of the services but metrics."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        places = {f"{name}-{n}": at for name, some in cluster.addresses.items() for n, at in enumerate(some)}
        self.addresses = {name: at for name, at in places.items() if name.startswith("metrics")}
        self.streams = {name: cluster.host([f"{name}={at}"], f"stream-{name}") for name, at in self.addresses.items()}
        rest = [f"{name}={at}" for name, at in places.items() if name not in self.addresses]
        self.streams[OTHERS] = cluster.host(rest, "stream-others")
        self.apis = {api.name: api for api in cluster.apis}
        self._topics = Topics(cluster.kafka.bootstrap)
        self._client = connect(cluster.redis.url, 5.0)

    def start(self, *instances: str) -> None:
        """Start these instances, stream and API, and wait until the APIs answer."""
        for name in instances:
            for child in self.of(name):
                child.start()
        for name in instances:
            self.apis[name].wait_until(partial(answers, f"http://{self.addresses[name]}/livez"), 60)

    def of(self, instance: str) -> list[Child]:
        return [self.streams[instance], self.apis[instance]]

    def stop(self) -> None:
        for child in (*self.streams.values(), *self.apis.values(), self.cluster.gateway):
            child.kill()

    def owners(self) -> dict[int, str | None]:
        """The addresses of the owners of the partitions of metrics."""
        return {p: one.owner for p, one in self.store("metrics").read({p: [] for p in range(8)}).items()}

    def owned_by(self, *instances: str) -> bool:
        """Whether these instances, and no others, own the partitions of metrics."""
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
            counts = {topic: self._topics.partitions(topic) for topic in registry.app(service).topics}
            ends[service] = self._topics.ends((topic, p) for topic, count in counts.items() for p in range(count))
        return ends

    def reached(self, ends: Ends) -> bool:
        """Whether every state stands at `ends` or behind them."""
        for service, places in ends.items():
            partitions = {partition for _, partition in places}
            snapshots = self.store(service).read({partition: [] for partition in partitions})
            if any(snapshots[p].positions.get(topic, 0) < end for (topic, p), end in places.items()):
                return False
        return True

    def catch_up(self, seconds: float = SETTLED_S) -> float:
        """Wait until every state stands where the topics end now; the seconds it took."""
        started = time.monotonic()
        ends: list[Ends] = []

        def caught_up() -> bool:
            try:
                ends[:] = ends or [self.ends()]
                return self.reached(*ends)
            except (RedisError, KafkaException):
                # A client has yet to notice that its server is back.
                return False

        eventually(caught_up, "the streams to catch up", seconds)
        return time.monotonic() - started


def below(child: Child) -> list[psutil.Process]:
    """The processes of `child`, itself first."""
    top = psutil.Process(child.pid)
    return [top, *top.children(recursive=True)]


def parts(child: Child) -> dict[str, list[psutil.Process]]:
    """Driver, JVM and Python workers of a stream."""
    driver, *rest = below(child)
    return {
        "driver": [driver],
        "JVM": [process for process in rest if process.name() == "java"],
        "worker": [process for process in rest if process.ppid() != driver.pid and process.name() != "java"],
    }


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        process.send_signal(number)
