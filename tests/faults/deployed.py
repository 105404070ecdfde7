"""A deployment of metrics over a topic of its own, as what is put under load."""

import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from devkit.cluster.local_cluster import LocalCluster
from devkit.events import records
from services.events import LISTENING_EVENTS
from services.metrics.model import APP
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import producer, send_all
from streamstate.settings import ServiceSettings
from streamstate.verify.check import Check
from streamstate.verify.own_form import of_deployment
from streamstate.verify.replay import recounted
from tests.deployment import Deployment
from tests.faults.load import known
from tests.integration.driving import read
from tests.waiting import until

USERS = range(101, 141)
PLAYS = 5


class Deployed(Deployment):
    """Over `partitions` partitions. The users of `USERS` in `play` play only before the start."""

    def __init__(self, cluster: LocalCluster, name: str, partitions: int, redis: str = "") -> None:
        super().__init__(cluster, name, redis)
        self.partitions = partitions
        self.bootstrap = cluster.kafka.bootstrap
        self.create(partitions)

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

    def ends(self) -> dict[tuple[str, int], int]:
        return Topics(self.bootstrap).ends((self.topic, p) for p in range(self.partitions))

    def positions(self) -> dict[tuple[str, int], int]:
        snapshots = self.store.read({p: [] for p in range(self.partitions)})
        return {(self.topic, p): snapshot.positions.get(self.topic, 0) for p, snapshot in snapshots.items()}

    def catch_up(self) -> float:
        started, ends = time.monotonic(), self.ends()
        until(lambda: all(at >= ends[p] for p, at in self.positions().items()), "the stream to catch up")
        return time.monotonic() - started

    def differences(self) -> list[str]:
        recount = of_deployment(recounted(APP), APP, renamed(APP, self.name, {LISTENING_EVENTS: self.topic}))
        settings = ServiceSettings.model_validate({"kafka": self.bootstrap, "redis": self.redis})
        return [str(difference) for difference in Check(recount, settings).run().differences]
