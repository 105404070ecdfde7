"""The requests that begin in a turn of an event loop: a part, when hundreds arrive at once."""

import asyncio
from collections import deque
from collections.abc import Callable

MOST = 64
"""The most requests begun in a turn.

Hundreds of requests, step by step together, would evict each other from the processor's caches.
"""


class Turns:
    """The turns of `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._left = MOST
        self._counting = False

    def begin(self, start: Callable[[], None]) -> None:
        """Call `start`, in a later turn if `MOST` requests have begun in the present turn."""
        if self._left:
            self._start(start)
        else:
            self._waiting.append(start)

    def _start(self, start: Callable[[], None]) -> None:
        self._left -= 1
        if not self._counting:
            self._counting = True
            self._loop.call_soon(self._next)
        start()

    def _next(self) -> None:
        self._left, self._counting = MOST, False
        while self._left and self._waiting:
            self._start(self._waiting.popleft())
