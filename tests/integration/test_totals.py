"""One publisher of totals at a time, on a real Kafka: no total goes down, whoever comes and goes."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from devkit.lab import Lab
from streamstate.app import App, Totals
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.totals import Publisher
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Merge
from streamstate.state.store import Commit, Step
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
        step = Step("t", position, (position or 0) + 1)
        self.store.commit(Commit(claim, [step], [Merge("sums", add={"a": number})]))

    def publisher(self, lab: Lab) -> Publisher:
        return Publisher(APP, self.store, Topics(lab.kafka.bootstrap), lab.kafka.bootstrap)


def totals(lab: Lab) -> list[int]:
    return [int(message.value() or b"") for message in read(lab, "totalled-out")]


def test_totals_never_go_down_whoever_publishes(lab: Lab) -> None:
    with pytest.raises(Misconfigured, match="totalled-out cannot be read"):
        State(1).publisher(lab)
    admin = AdminClient({"bootstrap.servers": lab.kafka.bootstrap})
    admin.create_topics([NewTopic("totalled-out", 3, 1)], operation_timeout=10.0)["totalled-out"].result()

    first = State(3)
    publisher = first.publisher(lab)
    publisher.publish(1)
    publisher.publish(1)
    assert totals(lab) == [3]

    State(2).publisher(lab).publish(1)
    assert totals(lab) == [3]

    State(5).publisher(lab).publish(1)
    first.add(10)
    with pytest.raises(KafkaException):
        publisher.publish(1)
    assert totals(lab) == [3, 5]
