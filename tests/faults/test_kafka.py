"""A broker that dies, transactions that are aborted, records that are deleted unread: F8, F9 and F15 of the list."""

import time
from collections.abc import Callable

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from devkit import records
from services.events import LISTENING_EVENTS
from streamstate.kafka.producer import producer, send_all
from streamstate.processing.truncation import LOST
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore, connect
from streamstate.state.store import Snapshot
from tests.faults.conftest import UnderLoad
from tests.faults.fault_report import Row
from tests.faults.fleet import Fleet
from tests.integration.driving import eventually

ABORTED_S = 30
FIRST_ABORTED = 5_000_000
TRANSACTIONS = 60
OTHER_TOPIC = "listening-events-f15"
UNREAD, READ = 10_000, 2_000
USER = 7


def test_f8_the_broker_is_killed(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F8", "kill -9 of the only broker, away for up to 15 s") as run:
        for away in (0, 4, 15):
            run.moment()
            fleet.cluster.kafka.kill()
            time.sleep(away)
            fleet.cluster.kafka.start()
            run.recover()
    assert max(run.recovered_s) <= ABORTED_S


def test_f9_transactions_are_aborted(under_load: UnderLoad, fleet: Fleet, row: Callable[[], Row]) -> None:
    out = Producer(
        {"bootstrap.servers": fleet.cluster.kafka.bootstrap, "transactional.id": "f9", "partitioner": "murmur2_random"}
    )
    out.init_transactions(30)
    aborted = []
    with under_load("F9", "three of ten transactions of a producer are aborted") as run:
        for number in range(TRANSACTIONS):
            abort = run.draw.random() < 0.3
            user = FIRST_ABORTED + number
            out.begin_transaction()
            for _ in range(20):
                key, value = records.event(user, 1, 1, 1, 1)
                out.produce(LISTENING_EVENTS, value, key)
            out.flush()
            if abort:
                aborted.append(user)
                out.abort_transaction()
            else:
                out.commit_transaction()
        run.recover()
        run.times = len(aborted)
    assert row().failed == 0
    counts = {user: fleet.plays(user) for user in range(FIRST_ABORTED, FIRST_ABORTED + TRANSACTIONS)}
    assert counts == {user: 0 if user in aborted else 20 for user in counts}


def test_f15_records_are_deleted_unread(fleet: Fleet, rows: list[Row]) -> None:
    """A deployment of metrics over a topic of its own refuses to go on; told to skip, it counts what it lacks."""
    bootstrap = fleet.cluster.kafka.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(OTHER_TOPIC, 1, 1)])[OTHER_TOPIC].result()
    store = RedisStore(connect(fleet.cluster.redis.url, 5.0), "metrics-f15")

    def state() -> Snapshot:
        return store.read({0: [Fields(f"user:{USER}")]})[0]

    def send(count: int) -> None:
        key, value = records.event(USER, 1, 1, 1, 1)
        send_all(producer(bootstrap), ((OTHER_TOPIC, key, value, []) for _ in range(count)))

    send(READ)
    stream = fleet.cluster.deployment("services.metrics", "metrics-f15", {LISTENING_EVENTS: OTHER_TOPIC})
    stream.start()
    eventually(lambda: state().positions == {OTHER_TOPIC: READ}, "the first records to be folded", 60)
    stream.stop()
    send(UNREAD + READ)
    admin.delete_records([TopicPartition(OTHER_TOPIC, 0, READ + UNREAD)])
    stream.start()
    reason = f"{UNREAD} records of {OTHER_TOPIC}:0 from offset {READ}"
    eventually(lambda: reason in stream.tail(200), "the stream to say why it does not go on", 60)
    assert state().positions == {OTHER_TOPIC: READ}
    stream.stop()

    skipping = fleet.cluster.deployment(
        "services.metrics", "metrics-f15", {LISTENING_EVENTS: OTHER_TOPIC}, LOST_RECORDS="skip"
    )
    skipping.start()
    eventually(lambda: state().positions == {OTHER_TOPIC: UNREAD + 2 * READ}, "the rest to be folded", 60)
    skipping.stop()
    assert state().counters == {LOST: UNREAD}
    assert state().values[0]["count"] == 2 * READ
    rows.append(
        Row(
            "F15",
            f"{UNREAD:,} records deleted unread: all reported, the stream refuses to go on or skips",
            1,
            0,
            0,
            0,
            0,
            0,
            0,
        )
    )
