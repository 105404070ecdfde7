"""Which connections are ended when, and limits of what is awaited."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from streamstate.deployment.connections import HttpSettings
from streamstate.web.process import options
from strictasgi.overdue import Overdue
from strictasgi.waiting import IDLE_S, PATIENCE_S, Waiting
from tests.waiting import REQUEST_S, now_s, pausing

# Which connections are ended, and when.


class Clients:
    """Connections by name, on a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ended: list[str] = []
        self.waiting = Waiting(lambda: self.now)

    def client(self, name: str) -> "Client":
        return Client(self, name)

    def overdue(self, now: float) -> list[str]:
        """The connections that end at `now`."""
        self.now, self.ended = now, []
        self.waiting.end_overdue()
        return self.ended


class Client:
    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._name = name

    def end(self) -> None:
        self._clients.ended.append(self._name)


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_who_does_not_ask_in_time_is_ended(clients: Clients) -> None:
    clients.waiting.hurry(clients.client("new"))
    clients.waiting.keep(clients.client("kept"))
    assert clients.overdue(PATIENCE_S) == []
    assert clients.overdue(PATIENCE_S + 1) == ["new"]
    assert clients.overdue(IDLE_S) == []
    assert clients.overdue(IDLE_S + 1) == ["kept"]
    assert clients.overdue(2 * IDLE_S) == []


def test_a_server_keeps_idle_connections_as_long_as_its_operator_says(clients: Clients) -> None:
    clients.waiting = Waiting(lambda: clients.now, options(HttpSettings.model_validate({"idle_s": 620}))["keepalive"])
    clients.waiting.keep(clients.client("of a balancer"))
    assert clients.overdue(620) == []
    assert clients.overdue(621) == ["of a balancer"]
    assert options(HttpSettings.model_validate({}))["keepalive"] == IDLE_S


def test_more_of_a_head_gives_no_more_time(clients: Clients) -> None:
    slow = clients.client("slow")
    clients.waiting.hurry(slow)
    clients.now = PATIENCE_S
    clients.waiting.hurry(slow)
    assert clients.overdue(PATIENCE_S + 1) == ["slow"]


def test_a_head_that_begins_on_a_kept_connection_has_the_time_of_a_head(clients: Clients) -> None:
    kept = clients.client("kept")
    clients.waiting.keep(kept)
    clients.now = 30
    clients.waiting.hurry(kept)
    assert clients.overdue(30 + PATIENCE_S) == []
    assert clients.overdue(30 + PATIENCE_S + 1) == ["kept"]


def test_who_is_answered_does_not_wait(clients: Clients) -> None:
    for wait in (clients.waiting.hurry, clients.waiting.keep):
        client = clients.client("answered")
        wait(client)
        clients.waiting.cancel(client)
    assert clients.overdue(2 * IDLE_S) == []


def test_the_one_that_waits_longest_goes_first(clients: Clients) -> None:
    clients.waiting.end_oldest()
    for now, wait in enumerate([clients.waiting.keep, clients.waiting.hurry, clients.waiting.keep]):
        clients.now = now
        wait(clients.client(str(now)))
    for _ in range(4):
        clients.waiting.end_oldest()
    assert clients.ended == ["0", "1", "2"]


# Time limits of what is awaited.

TIME_S, LONG_S = 0.05, REQUEST_S


async def after(seconds: float) -> str:
    await pausing(seconds)
    return "done"


def limited(overdue: Overdue, awaited: Coroutine[Any, Any, str], seconds: float) -> Coroutine[Any, Any, str]:
    return overdue.limit(awaited, now_s() + seconds)


def test_what_is_not_done_in_time_ends_then_and_others_go_on() -> None:
    async def trial() -> tuple[list[Any], float]:
        overdue, started = Overdue(), now_s()
        waits = [limited(overdue, after(LONG_S), TIME_S), limited(overdue, after(3 * TIME_S), LONG_S)]
        return await asyncio.gather(*waits, return_exceptions=True), now_s() - started

    (late, other), seconds = asyncio.run(trial())
    assert isinstance(late, TimeoutError)
    assert other == "done"
    assert 3 * TIME_S <= seconds < LONG_S


@pytest.mark.parametrize(("inner", "outer"), [(TIME_S, LONG_S), (LONG_S, TIME_S), (TIME_S, TIME_S)])
def test_limits_within_limits(inner: float, outer: float) -> None:
    async def trial() -> bool:
        overdue, task = Overdue(), asyncio.current_task()
        with pytest.raises(TimeoutError):
            await limited(overdue, limited(overdue, after(LONG_S), inner), outer)
        return task is not None and not task.cancelling()

    assert asyncio.run(trial())


def test_an_error_raised_for_the_cancellation_is_kept_and_leaves_nothing_behind() -> None:
    async def failing() -> str:
        try:
            return await after(LONG_S)
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    async def trial() -> int:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(ZeroDivisionError):
            await limited(Overdue(), failing(), TIME_S)
        return task.cancelling()

    assert asyncio.run(trial()) == 0


def test_what_is_late_without_having_to_wait_leaves_nothing_behind() -> None:
    async def at_once() -> str:
        return "done"

    async def trial() -> None:
        with pytest.raises(TimeoutError):
            await limited(Overdue(), at_once(), -1)
        await pausing(TIME_S)

    asyncio.run(trial())
