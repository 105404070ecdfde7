"""Ownership of partitions when instances come and go."""

import time
from collections.abc import Iterable, Iterator

import pytest

from devkit.local_cluster import LocalCluster
from services.events import LISTENING_EVENTS
from streamstate.kafka.consumer_group import Held, Membership
from tests.waiting import until

GROUP = "members"
SESSION_MS = 10_000


class Member:
    """An instance, and the partitions that it holds."""

    def __init__(self, bootstrap: str, name: str, session_ms: int = SESSION_MS) -> None:
        self.held: frozenset[int] | None = None
        self._stopped = False
        self.membership = Membership(bootstrap, GROUP, name, session_ms, self._update)
        self.membership.start(LISTENING_EVENTS)

    def _update(self, held: Held) -> None:
        self.held = frozenset(partition for _, partition in held)

    def stop(self) -> None:
        """Leave, once."""
        if not self._stopped:
            self.membership.stop()
        self._stopped = True


@pytest.fixture
def two(servers: LocalCluster) -> Iterator[tuple[Member, Member]]:
    members = Member(servers.kafka.bootstrap, "one"), Member(servers.kafka.bootstrap, "two")
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


def halves(members: Iterable[Member]) -> bool:
    """Whether each of two instances has its half, by the gauges of both."""
    for member in members:
        member.membership.commit({(LISTENING_EVENTS, partition): 0 for partition in member.held or ()})
    return [len(member.held or ()) for member in members] == [4, 4]


def test_an_instance_without_partitions_is_told_so(two: tuple[Member, Member], servers: LocalCluster) -> None:
    """Else it would never be ready: there may be more instances than partitions."""
    more = [Member(servers.kafka.bootstrap, f"more-{number}") for number in range(7)]
    try:
        everyone = [*two, *more]
        until(lambda: all(member.held is not None for member in everyone), 60, "everyone to be told")
        until(lambda: sorted(len(member.held or ()) for member in everyone) == [0, *[1] * 8], 60, "a share each")
    finally:
        for member in more:
            member.stop()
