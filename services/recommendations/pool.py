"""Walks beside the event loop: some threads with a short queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from services.recommendations.settings import PoolSettings
from streamstate.deployment.resources import cores
from streamstate.web.http.problems import overloaded

T = TypeVar("T")


class Pool:
    """Runs functions that take milliseconds of CPU without the interpreter's lock. For a single event loop."""

    def __init__(self, settings: PoolSettings) -> None:
        threads = settings.walkers or cores()
        self._most = threads + settings.walks_waiting
        self._threads = ThreadPoolExecutor(threads, "walker")
        self._taken = 0

    async def run(self, walk: Callable[[], T]) -> T:
        """The result of `walk`, called in a thread; raises a 503 `Problem` at once when the queue is full."""
        if self._taken >= self._most:
            raise overloaded(wanted="walks")
        self._taken += 1
        walking = asyncio.get_running_loop().run_in_executor(self._threads, walk)
        # A cancelled walk occupies its thread until the end.
        walking.add_done_callback(self._leave)
        return await asyncio.shield(walking)

    async def close(self) -> None:
        """Refuse further walks, and drop waiting walks."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _leave(self, walking: "asyncio.Future[T]") -> None:
        self._taken -= 1
        if not walking.cancelled():
            # Where the caller is gone, nobody else takes its error.
            walking.exception()
