"""Two services on two Kafka clusters, with topics of the same names, behind one gateway and on one Redis."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.demo import CACHE
from devkit.events import records
from devkit.servers.child_process import LOCALHOST, Child, free_port
from devkit.servers.kafka import Kafka
from devkit.topics import create
from services.events import LISTENING_EVENTS
from streamstate.app import dead_letter_topic
from streamstate.kafka.producer import producer
from tests.deployment import USER, Deployment
from tests.integration.releases import Releases
from tests.waiting import PATIENCE_S, REQUEST_S, until, until_equal

TOPIC, DELETIONS = "plays-of-two-clusters", "deletions-of-two-clusters"


class AtCluster(Deployment):
    """A service over `TOPIC` of the Kafka at `bootstrap`."""

    def __init__(self, releases: Releases, bootstrap: str, service: str) -> None:
        super().__init__(releases.cluster, f"{service}-of-two", host=releases.make)
        self.bootstrap, self.service, self.topic = bootstrap, service, TOPIC
        own = [dead_letter_topic(self.name), dead_letter_topic(service)]
        create(bootstrap, {topic: {} for topic in (TOPIC, DELETIONS, *own)}, 1)

    @property
    def settings(self) -> dict[str, str]:
        return {
            **super().settings,
            "KAFKA": self.bootstrap,
            "DELETIONS": DELETIONS,
            "TOPICS": json.dumps({LISTENING_EVENTS: TOPIC}),
        }

    def play(self, count: int) -> None:
        """Send plays of now to this Kafka."""
        out = producer(self.bootstrap)
        key, value = records.event(USER, 1, 1, 1, 1)
        for _ in range(count):
            out.produce(TOPIC, value, key)
        out.flush()

    def serve(self) -> str:
        """The address of the API beside the stream, started."""
        address = f"{LOCALHOST}:{free_port()}"
        self.stream(self.service, **self.settings, ADVERTISE=address)
        home, own = self.cluster.redis.log.parent, {**self.settings, "ADVERTISE": address}
        self.begin(LocalCluster.api(f"services.{self.service}", self.name, address, home, own), address)
        return address

    def begin(self, child: Child, address: str) -> None:
        child.start()
        self.started.append(child)
        child.wait_until(lambda: answers(f"http://{address}/livez"), PATIENCE_S)


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Kafka]:
    kafka = Kafka(tmp_path / "kafka", free_port(), CACHE / "kafka")
    kafka.start()
    yield kafka
    kafka.kill()


def ask(method: str, url: str) -> Any:
    return urllib3.request(method, url, timeout=REQUEST_S, retries=False).json()


def test_services_of_two_kafka_clusters_are_one_system(releases: Releases, second: Kafka, tmp_path: Path) -> None:
    plays = AtCluster(releases, releases.cluster.kafka.bootstrap, "metrics")
    habits = AtCluster(releases, second.bootstrap, "profile")
    try:
        plays.play(5)
        habits.play(8)
        instances = {"metrics": plays.serve(), "profile": habits.serve()}
        gateway = f"{LOCALHOST}:{free_port()}"
        given = {"INSTANCES": json.dumps(instances)}
        plays.begin(LocalCluster.api("services.gateway", "two-clusters", gateway, tmp_path, given), gateway)
        user = f"http://{gateway}/v1/users/{USER}"

        def counts() -> tuple[int | None, int | None]:
            answer = ask("GET", f"{user}?parts=metrics,habits")
            return answer.get("eventCount"), (answer.get("habits") or {}).get("plays", {}).get("ever")

        until_equal(counts, (5, 8), "both to be counted")
        shown = ask("GET", f"http://{gateway}/v1/system")["services"]
        assert {each["name"]: each["lag"] for each in shown} == {"metrics": 0, "profile": 0}
        # A command works at the Kafka of its environment.
        for each in (plays, habits):
            assert each.command("verify", status=0)["differences"] == []
            assert each.command("status")["faults"] == []
        habits.bootstrap = plays.bootstrap
        assert "STREAMSTATE_KAFKA names another Kafka" in str(habits.command("status")["faults"])
        # The deletion of a user is requested at both.
        assert {each["service"] for each in ask("DELETE", user)["services"]} == {plays.name, habits.name}
        until(lambda: ask("GET", f"{user}/deletion").get("done", False), "the deletion")
        assert counts() == (None, None)
    finally:
        plays.close()
        habits.close()
