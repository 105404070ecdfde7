"""Time limits of what is awaited."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from strictasgi.overdue import Overdue

TIME_S, LONG_S = 0.05, 30.0


async def after(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


def limited(overdue: Overdue, awaited: Coroutine[Any, Any, str], seconds: float) -> Coroutine[Any, Any, str]:
    return overdue.limit(awaited, time.monotonic() + seconds)


def test_what_is_done_in_time_is_returned() -> None:
    async def trial() -> list[str]:
        overdue = Overdue()
        return [await limited(overdue, after(0), LONG_S), await limited(overdue, after(TIME_S), LONG_S)]

    assert asyncio.run(trial()) == ["done", "done"]


def test_what_is_not_done_in_time_ends_then_and_others_go_on() -> None:
    async def trial() -> tuple[list[Any], float]:
        overdue, started = Overdue(), time.monotonic()
        waits = [limited(overdue, after(LONG_S), TIME_S), limited(overdue, after(3 * TIME_S), LONG_S)]
        return await asyncio.gather(*waits, return_exceptions=True), time.monotonic() - started

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


def test_a_cancellation_by_others_is_none_of_its_own() -> None:
    async def trial() -> None:
        task = asyncio.create_task(limited(Overdue(), after(LONG_S), LONG_S))
        await asyncio.sleep(TIME_S)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(trial())


def test_what_is_late_without_having_to_wait_leaves_nothing_behind() -> None:
    async def at_once() -> str:
        return "done"

    async def trial() -> None:
        with pytest.raises(TimeoutError):
            await limited(Overdue(), at_once(), -1)
        await asyncio.sleep(TIME_S)

    asyncio.run(trial())
