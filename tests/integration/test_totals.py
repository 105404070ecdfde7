"""One publisher of totals at a time, on a real Kafka: no total goes down, whoever comes and goes."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from devkit.local_cluster import LocalCluster
from streamstate.app import App, Totals
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.totals import Publisher
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Merge
from streamstate.state.store import Commit, OffsetAdvance
from tests.integration.driving import read

APP = App("totalled", (), totals=(Totals("totalled-out", "sums"),))


class State:
    """A state with one number, which the topics of an app would add up to."""

    def __init__(self, number: int) -> None:
        self.store = MemoryStore()
        self.add(number)

    def add(self, number: int) -> None:
        claim = self.store.claim(0, "a:1", {})
        position = claim.positions.get("t")
        step = OffsetAdvance("t", position, (position or 0) + 1)
        self.store.commit(Commit(claim, [step], [Merge("sums", add={"a": number})]))

    def publisher(self, cluster: LocalCluster) -> Publisher:
        return Publisher(APP, self.store, Topics(cluster.kafka.bootstrap), cluster.kafka.bootstrap)


def totals(cluster: LocalCluster) -> list[int]:
    return [int(message.value() or b"") for message in read(cluster, "totalled-out")]


def test_totals_never_go_down_whoever_publishes(cluster: LocalCluster) -> None:
    with pytest.raises(Misconfigured, match="totalled-out cannot be read"):
        State(1).publisher(cluster)
    admin = AdminClient({"bootstrap.servers": cluster.kafka.bootstrap})
    admin.create_topics([NewTopic("totalled-out", 3, 1)], operation_timeout=10.0)["totalled-out"].result()

    first = State(3)
    publisher = first.publisher(cluster)
    publisher.publish(1)
    publisher.publish(1)
    assert totals(cluster) == [3]

    State(2).publisher(cluster).publish(1)
    assert totals(cluster) == [3]

    State(5).publisher(cluster).publish(1)
    first.add(10)
    with pytest.raises(KafkaException):
        publisher.publish(1)
    assert totals(cluster) == [3, 5]
