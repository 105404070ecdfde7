"""A short selection of `make faults`: every answer equals a recount, whatever was killed or lost on the way."""

from itertools import islice

from tests.faults.losses import kill_losing_a_second
from tests.integration import cases
from tests.integration.driving import Driving
from tests.integration.profiles import assert_graph_agrees, assert_recount_agrees
from tests.waiting import until

EVENTS = 10_000


def kill(driving: Driving, what: str) -> None:
    """kill -9 a part of the streams or Redis, and start again what died; Redis loses a part of its last second."""
    if what == "Redis":
        kill_losing_a_second(driving.cluster.redis, driving.draw)
    else:
        driving.kill(what)
    if what == "driver":
        until(lambda: not driving.cluster.streams.alive, 30, "the process to end without its driver")
    driving.cluster.revive()


def test_every_answer_equals_a_recount_after_kills(driving: Driving) -> None:
    """Each kill comes while the folding is under way."""
    cases.change_states(driving)
    for what in ("worker", "Redis", "driver"):
        driving.feed(islice(driving.events, EVENTS))
        cases.feed(driving)
        left = EVENTS + driving.draw.randrange(1, EVENTS)
        until(lambda left=left: driving.cluster.behind() <= left, 60, "the folding to be under way")  # type: ignore[misc]
        kill(driving, what)
    driving.settle()
    assert driving.differences() == []
    assert_recount_agrees(driving)
    assert_graph_agrees(driving)
    cases.assert_cases_agree(driving)
