"""Time limits of what is awaited: one look at all of them, where a timer for each takes 5 µs of CPU."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

LOOK_S = 0.01
"""What is over ends so much later, at most."""


@dataclass(slots=True, eq=False)
class _Limited:
    """What `task` awaits until `at`."""

    task: asyncio.Task[Any]
    at: float
    over: bool = False


class Overdue:
    """All that is awaited at the moment. For one event loop."""

    def __init__(self) -> None:
        self._limited: set[_Limited] = set()
        self._looking = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def limit(self, awaited: Awaitable[T], at: float) -> T:
        """What `awaited` returns; raises `TimeoutError` when it does not by `at` (seconds, monotonic clock).

        As `asyncio.timeout_at`, it may be nested, and tells its own cancellation of the task from that of others.
        """
        # To ask for the running loop is a system call.
        self._loop = self._loop or asyncio.get_running_loop()
        task = asyncio.current_task(self._loop)
        assert task is not None, "only a task can be cancelled"
        limited = _Limited(task, at)
        self._limited.add(limited)
        if not self._looking:
            self._look_later()
        try:
            result = await awaited
        except asyncio.CancelledError:
            if limited.over and task.cancelling() == 1:
                raise TimeoutError from None
            raise
        finally:
            self._limited.remove(limited)
            if limited.over:
                task.uncancel()
        if time.monotonic() > at:
            raise TimeoutError
        return result

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for limited in self._limited:
            if limited.at <= now and not limited.over:
                limited.over = True
                limited.task.cancel()
        self._looking = False
        if self._limited:
            self._look_later()

    # Never at once: what ends without having to wait would leave the cancellation to whatever its task awaits next.
    def _look_later(self) -> None:
        self._looking = True
        asyncio.get_running_loop().call_later(LOOK_S, self._look)
