"""Time limits of awaitables, checked together: a timer for each would take 5 µs of CPU."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

CHECK_S = 0.01
"""Seconds between two checks: the greatest delay of a time limit."""


@dataclass(slots=True, eq=False)
class _Limit:
    """A time limit of `task`: cancelled after `ends` (seconds of the loop)."""

    task: asyncio.Task[Any]
    ends: float
    exceeded: bool = False


class Overdue:
    """The time limits of pending awaitables. For one event loop."""

    def __init__(self) -> None:
        self._limits: set[_Limit] = set()
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def limit(self, awaited: Awaitable[T], at: float) -> T:
        """The result of `awaited`; raises `TimeoutError` after `at` (seconds, monotonic clock).

        As with `asyncio.timeout_at`, limits may be nested, and another cancellation of the task is no timeout.
        """
        # `get_running_loop` makes a system call.
        self._loop = self._loop or asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)
        assert task is not None, "only a task can be cancelled"
        limit = _Limit(task, at)
        self._limits.add(limit)
        if not self._scheduled:
            self._schedule()
        try:
            result = await awaited
        except asyncio.CancelledError:
            if limit.exceeded and task.cancelling() == 1:
                raise TimeoutError from None
            raise
        finally:
            self._limits.remove(limit)
            if limit.exceeded:
                task.uncancel()
        if time.monotonic() > at:
            raise TimeoutError
        return result

    def _check(self) -> None:
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            if limit.ends <= now and not limit.exceeded:
                limit.exceeded = True
                limit.task.cancel()
        self._scheduled = False
        if self._limits:
            self._schedule()

    # Never at once: an awaitable that ends without waiting would leave the cancellation to the task's next await.
    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_later(CHECK_S, self._check)
