"""Ownership of partitions when there are more instances than partitions."""

from contextlib import ExitStack
from functools import partial

from devkit.local_cluster import LocalCluster
from services.events import LISTENING_EVENTS
from streamstate.kafka.consumer_group import Held, Membership
from tests.waiting import until


def test_an_instance_without_partitions_is_told_so(servers: LocalCluster) -> None:
    """Else it would never be ready."""
    held: dict[int, Held] = {}
    with ExitStack() as stack:
        for number in range(9):
            told = partial(held.__setitem__, number)
            member = Membership(servers.kafka.bootstrap, "members", str(number), 10_000, told)
            member.start(LISTENING_EVENTS)
            stack.callback(member.stop)
        until(lambda: sorted(map(len, held.values())) == [0, *[1] * 8], 60, "a share each")
