"""What begins in a turn of an event loop: not all that may, when hundreds come at once."""

import asyncio
from collections import deque
from collections.abc import Callable

MOST = 64
"""So many begin in one turn, and go on before the others do.

Hundreds that took each step together would find nothing of theirs in the processor's caches at the next one.
"""


class Turns:
    """The turns of `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._left = MOST
        self._counting = False

    def begin(self, start: Callable[[], None]) -> None:
        """Call `start`, in a later turn when as many as may have begun in this one."""
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
