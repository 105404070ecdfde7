"""Ownership of partitions when instances come and go."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from devkit.child_process import free_port
from devkit.demo import CACHE
from devkit.kafka_server import Kafka
from devkit.local_cluster import LocalCluster
from devkit.topics import configurations, create
from services.events import LISTENING_EVENTS
from streamstate.errors import FencedInstance
from streamstate.kafka.consumer_group import Membership
from streamstate.state.redis import RedisStore, connect
from tests.integration.driving import Driving
from tests.waiting import until

GROUP = "members"
SESSION_MS = 10_000
SHORTEST_SESSION_MS = 6_000


class Member:
    """An instance, and the partitions that it holds."""

    def __init__(self, bootstrap: str, name: str, session_ms: int = SESSION_MS) -> None:
        self.held: frozenset[int] | None = None
        self._stopped = False
        self.membership = Membership(bootstrap, GROUP, name, session_ms, self._update)
        self.membership.start(LISTENING_EVENTS)

    def _update(self, held: frozenset[int]) -> None:
        self.held = held

    def stop(self) -> None:
        """Leave, once."""
        if not self._stopped:
            self.membership.stop()
        self._stopped = True


@pytest.fixture
def two(cluster: LocalCluster) -> Iterator[tuple[Member, Member]]:
    members = Member(cluster.kafka.bootstrap, "one"), Member(cluster.kafka.bootstrap, "two")
    until(lambda: halves(members), 30, "each to have its half")
    yield members
    for member in members:
        member.stop()


def test_an_instance_that_ends_gracefully_hands_over_before_its_session_is_over(two: tuple[Member, Member]) -> None:
    staying, leaving = two
    start = time.monotonic()
    leaving.stop()
    until(lambda: staying.held == frozenset(range(8)), SESSION_MS / 1000 - 2, "the other to have all")
    assert time.monotonic() - start < SESSION_MS / 1000


def test_of_two_with_one_name_the_first_is_fenced_for_good(cluster: LocalCluster) -> None:
    """An instance that hung for longer than its session must claim its partitions again."""
    first = Member(cluster.kafka.bootstrap, "same")
    until(lambda: first.held == frozenset(range(8)), 60, "the first to have all")
    second = Member(cluster.kafka.bootstrap, "same")
    try:
        until(lambda: fenced(first), 60, "the first to be told")
        until(lambda: second.held == frozenset(range(8)), 60, "the second to have all")
        second.membership.require()
    finally:
        first.stop()
        second.stop()


def test_a_broker_that_is_away_for_as_long_as_a_session_fences_nobody(tmp_path: Path) -> None:
    """Kafka refuses for good who lost its session and commits before it has joined again, though the place is its."""
    kafka = Kafka(tmp_path / "kafka", free_port(), Path.cwd() / CACHE / "kafka")
    kafka.start()
    create(kafka.bootstrap, configurations())
    members = [Member(kafka.bootstrap, name, SHORTEST_SESSION_MS) for name in ("one", "two")]
    try:
        until(lambda: halves(members), 60, "each to have its half")
        kafka.kill()
        time.sleep(0.5)
        kafka.start()
        end = time.monotonic() + SHORTEST_SESSION_MS / 1000
        until(lambda: time.monotonic() > end and halves(members), 30, "each to have its half again")
        assert not any(fenced(member) for member in members)
    finally:
        for member in members:
            member.stop()
        kafka.kill()


def halves(members: Iterable[Member]) -> bool:
    """Whether each of two instances has its half, by the gauges of both."""
    for member in members:
        member.membership.commit({(LISTENING_EVENTS, partition): 0 for partition in member.held or ()})
    return [len(member.held or ()) for member in members] == [4, 4]


def fenced(member: Member) -> bool:
    try:
        member.membership.require()
    except FencedInstance as error:
        return "start the process again" in str(error)
    return False


def test_a_partition_that_a_stranger_claimed_is_taken_back_without_a_record_coming(driving: Driving) -> None:
    driving.settle()
    client = connect(driving.cluster.redis.url, 5.0)
    store = RedisStore(client, "metrics")
    before = store.read({3: []})[3].owner
    store.claim(3, "127.0.0.1:9", {})
    until(lambda: store.read({3: []})[3].owner == before, 20, "the owner to claim it again")
    client.close()


def test_an_instance_without_partitions_is_told_so(two: tuple[Member, Member], cluster: LocalCluster) -> None:
    """Else it would never be ready: there may be more instances than partitions."""
    more = [Member(cluster.kafka.bootstrap, f"more-{number}") for number in range(7)]
    try:
        everyone = [*two, *more]
        until(lambda: all(member.held is not None for member in everyone), 60, "everyone to be told")
        until(lambda: sorted(len(member.held or ()) for member in everyone) == [0, *[1] * 8], 60, "a share each")
    finally:
        for member in more:
            member.stop()
