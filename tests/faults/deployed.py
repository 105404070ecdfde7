"""A deployment of metrics over a topic of its own, as what is put under load."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from devkit.cluster.local_cluster import LocalCluster
from devkit.cluster.states import States
from devkit.events import records
from services.events import LISTENING_EVENTS
from services.metrics.model import APP
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import producer, send_all
from streamstate.settings import ServiceSettings
from streamstate.verify.check import Check
from tests.deployment import Deployment
from tests.faults.load import known
from tests.faults.trial import caught_up
from tests.integration.driving import read

USERS = range(101, 141)
PLAYS = 5


class Deployed(Deployment):
    """Over `partitions` partitions. The users of `USERS` in `play` play only before the start."""

    def __init__(self, cluster: LocalCluster, name: str, partitions: int, redis: str = "") -> None:
        super().__init__(cluster, name, redis)
        self.partitions = partitions
        self.bootstrap = cluster.kafka.bootstrap
        self.create(partitions)
        self.states = States(Topics(self.bootstrap), self.redis, {name: [self.topic]})

    def start(self) -> None:
        """Start stream and API, and wait until all is folded."""
        self.running = self.stream()
        self.url = f"http://{self.api()}"
        self.catch_up()

    def play(self, users: Iterable[int] = USERS) -> None:
        """Send `PLAYS` events of each of `users`."""
        events = (records.event(user, user % 7, n, n, 1_000 * n) for n in range(PLAYS) for user in users)
        send_all(producer(self.bootstrap), ((self.topic, *event, []) for event in events))

    def copy_from(self, other: "Deployed") -> None:
        """Send the records of the topic of `other`, by the partitions of this topic."""
        messages = read(self.cluster, other.topic)
        send_all(producer(self.bootstrap), ((self.topic, m.key(), m.value(), []) for m in messages))

    @cached_property
    def known(self) -> dict[int, Any]:
        """The profiles of the users at the first request."""
        return known(self.url, USERS)

    def catch_up(self) -> float:
        return caught_up(self.states)

    def differences(self) -> list[str]:
        app = renamed(APP, self.name, {LISTENING_EVENTS: self.topic})
        settings = ServiceSettings.model_validate({"kafka": self.bootstrap, "redis": self.redis})
        return [str(difference) for difference in Check(app, settings).run().differences]
