"""A bulkhead before each instance that is called: a slow one must not take the threads that the others need."""

import threading
from collections import defaultdict

SLOW_S = 0.25
"""From this age on a call counts as slow: many times what an answer takes, and a fraction of a deadline."""


class Bulkhead:
    """Bounds the calls to an address as soon as its oldest one is slow; while it answers, its speed bounds them.

    most: calls at a time to an address that is slow. Moments are seconds of one clock. Safe for threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls = 0
        # By address and number of the call. The first is the oldest: a dictionary keeps the order of its keys.
        self._started: defaultdict[str, dict[int, float]] = defaultdict(dict)

    def enter(self, address: str, now: float) -> int | None:
        """The number of a call that begins, None when there is no room for it."""
        with self._lock:
            started = self._started[address]
            if len(started) >= self._most and now - next(iter(started.values())) > SLOW_S:
                return None
            self._calls += 1
            started[self._calls] = now
            return self._calls

    def leave(self, address: str, number: int) -> None:
        """That call has ended."""
        with self._lock:
            del self._started[address][number]
