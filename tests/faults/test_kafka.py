"""A dying broker, aborted transactions, jumping clocks, invalid records: F8, F9 and F23."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from prometheus_client.parser import text_string_to_metric_families

from devkit.cluster.local_cluster import LocalCluster, answers, get
from devkit.events import records
from devkit.servers.child_process import LOCALHOST, free_port
from devkit.topics import create as create_topics
from services.clicks.model import USER_CLICKS
from services.events import LISTENING_EVENTS
from streamstate.kafka.producer import producer
from streamstate.keys import LONG
from streamstate.verify.check import Check
from tests.faults.conftest import UnderLoad
from tests.faults.fleet import Fleet
from tests.faults.harm import Clock
from tests.faults.raising.model import APP as RAISING
from tests.faults.raising.model import UNLUCKY
from tests.integration.driving import headers, read
from tests.serving import scraped
from tests.waiting import until, until_equal

ABORTED_S = 30
FIRST_ABORTED, FIRST_EARLY, FIRST_POISONED = 5_000_000, 6_000_000, 7_000_000
TRANSACTIONS = 20
HOUR_S = 3_600
LARGE = 1_048_000


@pytest.fixture(scope="module", autouse=True)
def any_timestamp(servers: LocalCluster) -> None:
    """Let the streams, and not Kafka, refuse what is from the future."""
    entry = ConfigEntry("message.timestamp.after.max.ms", str(2**63 - 1), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, LISTENING_EVENTS, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers.kafka.bootstrap, "log_level": 0})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result()


@pytest.mark.quick
def test_f8_the_broker_is_killed(under_load: UnderLoad, fleet: Fleet) -> None:
    with under_load("F8", "kill -9 of the only broker, away for up to 15 s") as run:
        for _ in run.seeds():
            run.moment()
            fleet.cluster.kafka.kill()
            run.moment(15)
            fleet.cluster.kafka.start()
            run.recover(fleet)
    run.require_recovered(ABORTED_S)


def test_f9_transactions_are_aborted(under_load: UnderLoad, fleet: Fleet) -> None:
    out = Producer({"bootstrap.servers": fleet.bootstrap, "transactional.id": "f9", "partitioner": "murmur2_random"})
    out.init_transactions(30)
    expected = {}
    with under_load("F9", "three of ten transactions of a producer are aborted") as run:
        for seed in run.seeds():
            for user in range(FIRST_ABORTED + seed * TRANSACTIONS, FIRST_ABORTED + (seed + 1) * TRANSACTIONS):
                abort = run.draw.random() < 0.3
                out.begin_transaction()
                for _ in range(20):
                    key, value = records.event(user, 1, 1, 1, 1)
                    out.produce(LISTENING_EVENTS, value, key)
                out.flush()
                out.abort_transaction() if abort else out.commit_transaction()
                expected[user] = 0 if abort else 20
            run.recover(fleet)
        run.times = list(expected.values()).count(0)
    assert run.reads.failed == 0
    assert {user: fleet.plays(user) for user in expected} == expected


@contextmanager
def believing(clock: Clock, fleet: Fleet) -> Iterator[str]:
    """A stream of metrics goes by `clock`; yields the address of its status."""
    name, status = "metrics-0", f"{LOCALHOST}:{free_port()}"
    usual = fleet.streams[name]
    with clock.believed():
        instance = f"{name}={fleet.addresses[name]}"
        fleet.streams[name] = fleet.cluster.host([instance], "stream-clock", STATUS_PORT=status.rpartition(":")[2])
    usual.stop()
    fleet.streams[name].start()
    until(lambda: fleet.owned_by(name, "metrics-1") and answers(f"http://{status}/livez"), name)
    try:
        yield status
    finally:
        fleet.streams[name].stop()
        fleet.streams[name] = usual
        usual.start()


def test_f23_clocks_jump(under_load: UnderLoad, fleet: Fleet, tmp_path: Path) -> None:
    clock, out, lowest = Clock(tmp_path / "clock"), producer(fleet.bootstrap), 0.0
    with under_load("F23", "a stream's clock jumps by an hour, ahead and back; events from the future") as run:
        with believing(clock, fleet) as status:
            run.recover(fleet)
            for seed in run.seeds():
                for jump in run.draw.sample((-HOUR_S, 0, HOUR_S), 3):
                    clock.set(jump)
                    now_ms = int(time.time() * 1_000)
                    for user in range(FIRST_EARLY, FIRST_EARLY + 20):
                        key, value = records.event(user + 20 * seed, 1, 1, 1, now_ms)
                        ahead_ms = run.draw.randrange(2 * HOUR_S * 1_000)
                        out.produce(LISTENING_EVENTS, value, key, timestamp=now_ms + ahead_ms)
                    out.flush()
                    run.moment()
                    fleet.states.store("metrics").claim(run.draw.randrange(8), fleet.addresses["metrics-1"], {})
                    run.recover(fleet)
                    lowest = min(lowest, lowest_sample(status), lowest_sample(fleet.addresses["metrics-0"]))
        run.recover(fleet)
    assert lowest == 0


def lowest_sample(address: str) -> float:
    families = text_string_to_metric_families(scraped(address))
    return min(sample.value for family in families for sample in family.samples)


@dataclass(frozen=True)
class Poison:
    """A kind of record that cannot be used, and the `stage` at which `service` refuses it.

    send: sends it for a user, and returns its key.
    """

    service: str
    stage: bytes
    send: Callable[[Producer, int, Random], bytes]


def undecodable(out: Producer, user: int, _draw: Random) -> bytes:
    key, value = records.event(user, 1, 1, 1, 1)
    out.produce(LISTENING_EVENTS, value[:-1], key)
    return key


def too_large(out: Producer, user: int, draw: Random) -> bytes:
    key = LONG.encode(user)
    out.produce(LISTENING_EVENTS, draw.randbytes(LARGE), key)
    return key


def far_future(out: Producer, user: int, draw: Random) -> bytes:
    key, value = records.event(user, 1, 1, 1, 1)
    days = draw.randint(1, 3_650)
    out.produce(LISTENING_EVENTS, value, key, timestamp=int(time.time() * 1_000) + days * 24 * HOUR_S * 1_000)
    return key


def beyond_2_53(out: Producer, user: int, draw: Random) -> bytes:
    key = b"poisoned-%d" % user
    for clicks in (2**53 - 1, draw.randint(2, 2**53)):
        out.produce(USER_CLICKS, b"%d" % clicks, key)
    return key


def not_foldable(out: Producer, user: int, _draw: Random) -> bytes:
    key, value = records.event(user, UNLUCKY, 1, 1, 1)
    out.produce(LISTENING_EVENTS, value, key)
    return key


KINDS = {
    "undecodable": Poison("metrics", b"decode", undecodable),
    "too large": Poison("names", b"decode", too_large),
    "from the future": Poison("metrics", b"timestamp", far_future),
    "a sum beyond 2^53": Poison("clicks", b"fold", beyond_2_53),
    "a fold raises": Poison(RAISING.name, b"fold", not_foldable),
}


@pytest.fixture
def raising_stream(fleet: Fleet) -> Iterator[None]:
    """The stream of the service whose fold fails."""
    create_topics(fleet.bootstrap, {RAISING.dead_letters: {}}, 1)
    child = fleet.cluster.deployment("tests.faults.raising", RAISING.name, {})
    child.start()
    yield
    child.stop()


@pytest.mark.usefixtures("raising_stream")
def test_poison(under_load: UnderLoad, fleet: Fleet) -> None:
    """Each record is a dead letter, once, and its neighbours of the same user are counted."""
    out = producer(fleet.bootstrap)
    neighbours: dict[int, int] = {}
    keys: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
    with under_load("poison", f"each kind: {', '.join(KINDS)}") as run:
        for seed in run.seeds():
            for number, (kind, poison) in enumerate(KINDS.items()):
                user = FIRST_POISONED + len(KINDS) * seed + number
                neighbours[user] = run.draw.randint(2, 9)
                places = run.draw.randrange(1, neighbours[user])
                for place in range(neighbours[user]):
                    if place == places:
                        keys[kind].append(poison.send(out, user, run.draw))
                    key, value = records.event(user, 1, 1, 1, 1)
                    out.produce(LISTENING_EVENTS, value, key)
            out.flush()
            run.recover(fleet)
        run.times = sum(map(len, keys.values()))
        ends = {RAISING.name: fleet.states.ends()["metrics"]}
        until_equal(lambda: fleet.states.behind(ends), 0, "the fold that raises to catch up")
        run.differences += map(str, Check(RAISING, fleet.cluster.settings).run().differences)
    for kind, poison in KINDS.items():
        letters = [headers(letter) for letter in read(fleet.cluster, f"{poison.service}-dlq")]
        refused = {(letter["x-key"], letter["x-stage"]) for letter in letters if letter.get("x-key") in keys[kind]}
        assert refused == {(key, poison.stage) for key in keys[kind]}, kind
    unlucky = {int.from_bytes(key, "big") for key in keys["a fold raises"]}
    for user, count in neighbours.items():
        assert get(f"{fleet.url}/v1/users/{user}/metrics")["eventCount"] == count + (user in unlucky)
