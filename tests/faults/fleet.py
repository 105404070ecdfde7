"""A cluster with instances that start and stop separately: an instance of metrics is two processes, stream and API."""

import signal
from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any

import psutil
import urllib3

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.servers.child_process import Child
from services.events import LISTENING_EVENTS
from streamstate.cli.services import deployments
from streamstate.settings import CommandSettings
from streamstate.verify.check import Check, Report
from tests.faults.load import known
from tests.faults.trial import caught_up
from tests.waiting import PATIENCE_S

OTHERS = "others"
KNOWN = 100
"""So many users are read, who play no more."""


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
        self.states = cluster.states()

    @cached_property
    def known(self) -> dict[int, Any]:
        """The profiles at the first request, of users without further plays."""
        return known(self.url, range(1, KNOWN + 1))

    def differences(self) -> list[str]:
        """What `streamstate verify` finds in the services of the cluster."""
        reports = recounted(self.cluster.settings, *self.cluster.services)
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
        return {
            p: snapshot.owner for p, snapshot in self.states.store("metrics").read({p: [] for p in range(8)}).items()
        }

    def owned_by(self, *instances: str) -> bool:
        """Whether exactly these instances own the partitions of metrics."""
        return set(self.owners().values()) == {self.addresses[name] for name in instances}

    def plays(self, user: int) -> int:
        """How many plays of `user` the gateway tells."""
        answer = urllib3.request("GET", f"{self.cluster.url}/v1/users/{user}/metrics", timeout=10)
        return int(answer.json()["eventCount"]) if answer.status == 200 else 0

    def catch_up(self) -> float:
        """Wait until every state stands where the topics end now; the seconds it took."""
        return caught_up(self.states)


def recounted(settings: CommandSettings, *services: str) -> list[Report]:
    """What `make verify` finds in the states of `services`, or of all."""
    return [Check(each.app, settings).run() for each in deployments(settings, services)]


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        process.send_signal(number)
