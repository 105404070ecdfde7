"""Who is asked next."""

import threading
from collections.abc import Sequence

import pytest

from services.gateway.balance import Balance
from streamstate.web.client import OWNER, Answer, Instances, Marks, Unreachable
from streamstate.web.deadline import Deadline
from streamstate.web.problems import Problem, deadline_passed
from tests.serving import soon, until

ALL = ("a:1", "b:1", "c:1")


class Acted(Instances):
    """Instances that do what the test says: a status, an error, or a gate at which calls wait."""

    def __init__(self, **does: int | Exception | threading.Event) -> None:
        super().__init__(1)
        self.does = {f"{name}:1": what for name, what in does.items()}
        self.asked: list[str] = []
        self.allowed: list[float] = []

    def get(
        self, address: str, path: str, deadline: Deadline, query: Sequence[tuple[str, str]] = (), marks: Marks = OWNER
    ) -> Answer:
        self.asked.append(address)
        self.allowed.append(deadline.left)
        what = self.does.get(address, 200)
        if isinstance(what, Exception):
            raise what
        if isinstance(what, threading.Event):
            assert what.wait(5)
            what = 200
        return Answer(what, path.encode(), "", {"Served-By": f"{address}{query}{marks}"})


def ask(balance: Balance, addresses: Sequence[str] = ALL) -> Answer:
    return balance.get(addresses, "/path", [], soon(2))


def test_instances_take_turns() -> None:
    acted = Acted()
    balance = Balance(acted)
    for _ in range(6):
        ask(balance)
    assert sorted(acted.asked[:3]) == sorted(acted.asked[3:]) == list(ALL)


def test_the_least_busy_is_asked() -> None:
    gate = threading.Event()
    acted = Acted(a=gate)
    balance = Balance(acted)
    waiting = threading.Thread(target=ask, args=(balance, ["a:1"]))
    waiting.start()
    until(lambda: acted.asked == ["a:1"])
    for _ in range(4):
        ask(balance, ["a:1", "b:1"])
    assert acted.asked[1:] == ["b:1"] * 4
    gate.set()
    waiting.join()
    ask(balance, ["a:1", "b:1"])
    assert acted.asked[-1] == "a:1"


@pytest.mark.parametrize("failure", [Unreachable("a:1"), deadline_passed(), 503, 504])
def test_after_a_failure_another_is_asked_and_the_one_that_failed_rests(failure: int | Exception) -> None:
    acted = Acted(a=failure)
    balance = Balance(acted)
    for _ in range(6):
        assert ask(balance).status == 200
    assert acted.asked.count("a:1") == 1


@pytest.mark.parametrize("status", [400, 404, 500])
def test_an_answer_is_an_answer(status: int) -> None:
    acted = Acted(a=status)
    assert ask(Balance(acted), ["a:1"]).status == status
    assert acted.asked == ["a:1"]


def test_when_none_is_ready_the_last_refusal_is_the_answer() -> None:
    acted = Acted(a=503, b=Unreachable("b:1"), c=503)
    assert ask(Balance(acted)).status == 503
    assert sorted(acted.asked) == list(ALL)


def test_when_none_can_be_reached_it_is_503() -> None:
    with pytest.raises(Problem, match="no instance") as error:
        ask(Balance(Acted(a=Unreachable("a:1"))), ["a:1"])
    assert error.value.status == 503
    with pytest.raises(Problem):
        ask(Balance(Acted()), [])


def test_an_instance_that_hangs_leaves_time_for_the_next() -> None:
    acted = Acted(a=504, b=504, c=504)
    ask(Balance(acted))
    first, second, last = acted.allowed
    assert first == pytest.approx(1, abs=0.1)
    assert second == pytest.approx(1, abs=0.1)
    assert last == pytest.approx(2, abs=0.1)
