"""Who is asked next."""

import asyncio
from typing import Any

import pytest

from services.gateway.upstream import SHARE, Upstream
from streamstate.web.client.instances import OWNER, Instances, InstanceUnreachable
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Response
from tests.serving import soon

ALL = ("a:1", "b:1", "c:1")
SERVICES = {"all": ALL, "one": ["a:1"], "two": ["a:1", "b:1"], "none": []}
MOST = 3


class Acted(Instances):
    """Instances controlled by the test: a status, no answer, or an event that calls wait for."""

    def __init__(self, **does: int | Exception | asyncio.Event) -> None:
        super().__init__()
        self.does = {f"{name}:1": what for name, what in does.items()}
        self.asked: list[str] = []
        self.allowed: list[float] = []
        self.ill: set[str] = set()

    def is_healthy(self, address: str) -> bool:
        return address not in self.ill

    async def get(self, address: str, path: str, deadline: Deadline, *_: Any, **__: Any) -> Response:
        self.asked.append(address)
        self.allowed.append(deadline.left)
        what = self.does.get(address, 200)
        if isinstance(what, Exception):
            self.ill.add(address)
            raise what
        if isinstance(what, asyncio.Event):
            await what.wait()
            what = 200
        return Response(what, path.encode(), {})


def over(client: Instances) -> Upstream:
    return Upstream(SERVICES, client, MOST)


def ask(upstream: Upstream, service: str = "all", owner: str | None = None) -> Response:
    return asyncio.run(upstream.get(service, owner, "/path", [], soon(2)))


def test_the_least_busy_is_asked() -> None:
    async def trial() -> None:
        gate = asyncio.Event()
        acted = Acted(a=gate)
        upstream = over(acted)
        waiting = asyncio.create_task(upstream.get("one", None, "/path", [], soon()))
        await asyncio.sleep(0)
        for _ in range(4):
            await upstream.get("two", None, "/path", [], soon())
        assert acted.asked == ["a:1", *["b:1"] * 4]
        gate.set()
        await waiting
        await upstream.get("two", None, "/path", [], soon())
        assert acted.asked[-1] == "a:1"

    asyncio.run(trial())


def test_after_no_answer_another_is_asked_and_the_one_that_gave_none_rests() -> None:
    acted = Acted(a=InstanceUnreachable("a:1"))
    upstream = over(acted)
    for _ in range(6):
        assert ask(upstream).status == 200
    assert acted.asked.count("a:1") == 1


@pytest.mark.parametrize("status", [503, 504])
def test_after_a_refusal_another_is_asked(status: int) -> None:
    acted = Acted(a=status)
    upstream = over(acted)
    for _ in range(6):
        assert ask(upstream).status == 200
    assert acted.asked.count("a:1") > 1


def test_when_none_is_ready_the_last_refusal_is_the_answer() -> None:
    acted = Acted(a=503, b=InstanceUnreachable("b:1"), c=503)
    assert ask(over(acted)).status == 503
    assert sorted(acted.asked) == list(ALL)


def test_when_none_can_be_reached_it_is_503() -> None:
    with pytest.raises(Problem, match="no instance") as error:
        ask(over(Acted(a=InstanceUnreachable("a:1"))), "one")
    assert error.value.status == 503
    with pytest.raises(Problem):
        ask(over(Acted()), "none")


@pytest.mark.parametrize("status", [503, 504])
def test_a_refusal_of_the_owner_is_the_answer(status: int) -> None:
    acted = Acted(b=status)
    assert ask(over(acted), owner="b:1").status == status
    assert acted.asked == ["b:1"]


def test_instances_that_name_each_other_as_the_owner_do_not_keep_a_request() -> None:
    class Disowning(Acted):
        async def get(self, address: str, path: str, deadline: Deadline, *more: Any, **named: Any) -> Response:
            answer = await super().get(address, path, deadline)
            other, marks = (
                {"a:1": "b:1", "b:1": "a:1"}[address],
                more[1] if len(more) > 1 else named.get("marks", OWNER),
            )
            return Response(421, b'{"owner": "%s"}' % other.encode(), {}) if marks == OWNER else answer

    acted = Disowning()
    assert ask(over(acted), "two", "a:1").status == 200
    assert acted.asked[:2] == ["a:1", "b:1"]
    assert len(acted.asked) == 3


def test_an_instance_that_hangs_leaves_time_for_the_next() -> None:
    acted = Acted(a=504, b=504, c=504)
    ask(over(acted))
    first, second, last = acted.allowed
    assert first == pytest.approx(2 * SHARE, abs=0.1)
    assert second == pytest.approx(2 * SHARE, abs=0.1)
    assert last == pytest.approx(2, abs=0.1)


def test_where_any_instance_answers_one_that_has_its_calls_is_left_out() -> None:
    async def trial() -> None:
        gate = asyncio.Event()
        acted = Acted(a=gate, b=503)
        upstream = over(acted)
        held = [asyncio.create_task(upstream.get("one", None, "/path", [], soon())) for _ in range(MOST)]
        await asyncio.sleep(0)
        assert (await upstream.get("all", None, "/path", [], soon())).status == 200
        with pytest.raises(Problem, match="requests for one instance"):
            await upstream.get("one", None, "/path", [], soon())
        assert (await upstream.get("two", None, "/path", [], soon())).status == 503
        assert acted.asked.count("a:1") == MOST
        gate.set()
        await asyncio.gather(*held)

    asyncio.run(trial())
