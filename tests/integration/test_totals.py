"""One publisher of totals at a time, on a real Kafka: the last total is exact, whoever comes and goes."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from devkit.cluster.local_cluster import LocalCluster
from devkit.servers.kafka import Kafka
from devkit.topics import create as create_topics
from streamstate.app import App, Fold, Source, Totals
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.producer import producer, send_all
from streamstate.kafka.totals import Publisher
from streamstate.keys import TEXT
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Merge
from streamstate.state.store import Commit, OffsetAdvance
from tests.waiting import REQUEST_S, until, until_equal

IN, OUT = "totalled-in", "totalled-out"
ID = "totalled-totals"
SOURCE = Source(IN, TEXT, lambda _key, value: value)
APP = App("totalled", (Fold((SOURCE,), lambda _records, _context: ()),), totals=(Totals(OUT, "sums"),))


@pytest.fixture
def broker(servers: LocalCluster) -> Kafka:
    until(lambda: _coordinates(servers.kafka), "the coordinator of groups")
    return servers.kafka


def _coordinates(kafka: Kafka) -> bool:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": ID})
    try:
        consumer.committed([TopicPartition(IN, 0)], timeout=REQUEST_S)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True


@pytest.fixture
def kafka(broker: Kafka) -> Iterator[Kafka]:
    """The broker, with empty topics and no groups."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for topic, partitions in ((IN, 1), (OUT, 3)):
        create_topics(broker.bootstrap, {topic: {}}, partitions)
    # Not at once: the broker learns of topics from its controller, even of topics that it was asked to create.
    until(lambda: admin.list_topics(timeout=REQUEST_S).topics.keys() >= {IN, OUT}, "the broker to know its topics")
    yield broker
    for deleted in admin.delete_topics([IN, OUT], operation_timeout=10.0).values():
        deleted.result()


class State:
    """A state with some numbers added up, from a record each."""

    def __init__(self, kafka: Kafka, *numbers: int) -> None:
        self._kafka = kafka
        self.store = MemoryStore()
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        claim = self.store.claim(0, "a:1", {})
        position = claim.positions.get(IN)
        step = OffsetAdvance(IN, position, (position or 0) + 1)
        self.store.commit(Commit(claim, [step], [Merge("sums", add={"a": number})]))

    def publisher(self) -> Publisher:
        bootstrap = self._kafka.bootstrap
        return Publisher(APP, self.store, Topics(bootstrap))


def totals(kafka: Kafka) -> list[int]:
    """What a reader of committed records gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([OUT])
    values: list[int] = []
    try:
        while (message := consumer.poll(0.1 if values else 10.0)) is not None:
            values.append(int(message.value() or b""))
    finally:
        consumer.close()
    return values


def test_a_topic_of_totals_must_exist(broker: Kafka) -> None:
    with pytest.raises(Misconfigured, match=f"{OUT} cannot be read"):
        State(broker, 1).publisher()


def test_totals_never_go_down_while_a_state_that_was_set_back_catches_up(kafka: Kafka) -> None:
    first = State(kafka, 3, 4)
    publisher = first.publisher()
    publisher.publish(1)
    publisher.publish(1)
    assert totals(kafka) == [7]

    second = State(kafka, 3)
    later = second.publisher()
    later.publish(1)
    second.add(4)
    later.publish(1)
    second.add(5)
    later.publish(1)
    first.add(10)
    with pytest.raises(KafkaException):
        publisher.publish(1)
    published = totals(kafka)
    assert published == sorted(published)
    assert (published[0], published[-1]) == (7, 12)


def test_totals_never_go_down_when_kafka_has_forgotten_the_group(kafka: Kafka) -> None:
    """A group without members expires after a week, and with it how far the state was."""
    out = producer(kafka.bootstrap)
    send_all(out, ((IN, b"a", b"", []) for _ in range(2)))
    State(kafka, 3, 4).publisher().publish(1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.delete_consumer_groups([ID])[ID].result()
    rebuilt = State(kafka, 3)
    publisher = rebuilt.publisher()
    publisher.publish(1)
    assert totals(kafka) == [7]
    rebuilt.add(4)
    publisher.publish(1)
    rebuilt.add(5)
    publisher.publish(1)
    assert totals(kafka) == [7, 7, 12]


def test_a_total_that_was_aborted_is_published(kafka: Kafka) -> None:
    """Its transaction did not end, so readers of committed records never saw the record."""
    dying = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": ID})
    dying.init_transactions()
    dying.begin_transaction()
    dying.produce(OUT, b"7", b"a")
    dying.flush()
    State(kafka, 3, 4).publisher().publish(1)
    assert totals(kafka) == [7]


def test_a_total_that_was_too_high_is_corrected_by_a_state_that_has_read_as_much(kafka: Kafka) -> None:
    State(kafka, 3, 40).publisher().publish(1)
    rebuilt = State(kafka, 3)
    publisher = rebuilt.publisher()
    publisher.publish(1)
    assert totals(kafka) == [43]
    rebuilt.add(4)
    publisher.publish(1)
    assert totals(kafka) == [43, 7]


def test_totals_of_another_state_are_corrected_on_demand_wherever_the_state_stands(kafka: Kafka) -> None:
    State(kafka, 3, 40).publisher().publish(1)
    behind = State(kafka, 3)
    publisher = behind.publisher()
    publisher.correct(1)
    until_equal(lambda: totals(kafka), [43, 3], "the lower total")
    behind.add(4)
    publisher.publish(1)
    assert totals(kafka) == [43, 3, 7]
