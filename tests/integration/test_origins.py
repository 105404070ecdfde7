"""Topics that are deleted and made anew, or get more partitions: a state that was built before says so and stops."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from devkit import records
from devkit.child_process import Child
from devkit.local_cluster import LocalCluster
from services.events import LISTENING_EVENTS
from streamstate.kafka.producer import producer, send_all
from streamstate.state.redis import RedisStore, connect
from tests.integration.driving import Driving, eventually

TOPIC = "listening-events-origins"
NAME = "metrics-origins"
FOUND_S = 30


class Deployment:
    """Metrics over a topic of its own, of one partition."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._bootstrap = cluster.kafka.bootstrap
        self.admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        self.store = RedisStore(connect(cluster.redis.url, 5.0), NAME)
        self.stream: Child = cluster.deployment("metrics", NAME, {LISTENING_EVENTS: TOPIC})

    def create(self) -> None:
        self.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()

    def delete(self) -> None:
        self.admin.delete_topics([TOPIC])[TOPIC].result()
        eventually(lambda: TOPIC not in self.admin.list_topics(timeout=5).topics, "the topic to be gone")

    def send(self, count: int) -> None:
        key, value = records.event(7, 1, 1, 1, 1)
        send_all(producer(self._bootstrap), ((TOPIC, key, value, []) for _ in range(count)))

    def position(self) -> int:
        return self.store.read({0: []})[0].positions.get(TOPIC, 0)

    def ended(self, why: str) -> None:
        """The stream ends, and its last words are `why`."""
        started = time.monotonic()
        eventually(lambda: not self.stream.alive, f"the stream to end since {why}", FOUND_S + 30)
        assert why in self.stream.tail(50)
        assert time.monotonic() - started < FOUND_S


@pytest.fixture
def deployment(driving: Driving) -> Iterator[Deployment]:
    one = Deployment(driving.cluster)
    one.create()
    one.send(100)
    one.stream.start()
    eventually(lambda: one.position() == 100, "the first records to be folded", 60)
    yield one
    one.stream.kill()
    one.delete()
    client = connect(driving.cluster.redis.url, 5.0)
    for key in client.scan_iter(f"{{{NAME}:*"):
        client.delete(key)
    client.close()


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(deployment: Deployment) -> None:
    """Else the first hundred of its records would be skipped without a word."""
    deployment.stream.stop()
    deployment.delete()
    deployment.create()
    deployment.send(150)
    deployment.stream.start()
    deployment.ended("was deleted and made anew")
    assert deployment.position() == 100


def test_partitions_that_are_added_while_it_runs_are_noticed(deployment: Deployment) -> None:
    """Else the keys that moved would begin again from nothing in their new partitions."""
    deployment.admin.create_partitions([NewPartitions(TOPIC, 2)])[TOPIC].result()
    deployment.ended("has 2 partitions and had 1")
