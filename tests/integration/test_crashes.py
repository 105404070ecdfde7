"""A short selection of `make faults`: every answer equals a recount, whatever was killed or lost on the way."""

from itertools import islice

import pytest
import redis

from tests.faults.losses import kill_losing_a_second
from tests.integration import test_cases as cases
from tests.integration.driving import Driving
from tests.integration.graphs import assert_graph_agrees
from tests.integration.test_profiles import assert_recount_agrees
from tests.waiting import until

EVENTS = 10_000


def assert_exact(driving: Driving) -> None:
    driving.settle()
    assert driving.differences() == []
    assert_recount_agrees(driving)
    assert_graph_agrees(driving)
    cases.assert_cases_agree(driving)


def strike(driving: Driving, what: str) -> None:
    """kill -9 a part of the streams or Redis, and start again what died."""
    if what == "Redis":
        kill_losing_a_second(driving.cluster.redis, driving.draw)
    else:
        driving.kill(what)
    if what in ("driver", "JVM"):
        until(lambda: not driving.cluster.streams.alive, 30, f"the process to end without its {what}")
    driving.cluster.revive()


@pytest.mark.parametrize("killed", [("worker", "driver"), ("Redis", "JVM")], ids=" and ".join)
def test_exact_after_kill(driving: Driving, killed: tuple[str, str]) -> None:
    """The folding is under way; Redis loses a part of its last second."""
    cases.change_states(driving)
    for part in killed:
        driving.feed(islice(driving.events, EVENTS))
        cases.feed(driving)
        left = driving.draw.randrange(1, EVENTS)
        until(lambda left=left: driving.cluster.behind() <= EVENTS + left, 60, "the folding to be under way")  # type: ignore[misc]
        strike(driving, part)
    assert_exact(driving)


def test_a_state_that_was_emptied_is_built_again(driving: Driving) -> None:
    """Never a wrong answer, not ready meanwhile, and exact afterwards; no total goes down."""
    before, totals = driving.get("/v1/users/1").json(), driving.regions()
    redis.Redis(port=driving.cluster.redis.port).flushall()

    def built_again(path: str) -> bool:
        answer = driving.get(path)
        assert (answer.status, "Retry-After" in answer.headers) in ((200, False), (503, True))
        return answer.status == 200

    until(lambda: built_again("/v1/users/1"), 60, "the state to be built again")
    assert driving.get("/v1/users/1").json()["eventCount"] == before["eventCount"]
    until(lambda: built_again("/v1/regions"), 120, "the totals to be complete again")
    assert driving.regions() == totals
    assert_exact(driving)
