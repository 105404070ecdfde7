"""Calls that any instance of a service can answer: spread, and asked of another one when the first does not answer."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from streamstate.web.client import Answer, Instances, Unreachable
from streamstate.web.deadline import Deadline
from streamstate.web.problems import RETRY_AFTER_S, Problem

ANOTHER_MAY = (503, 504)
"""Answers after which another instance is asked."""


class Balance:
    """The instance with the least outstanding calls is asked, and of several the one that was asked longest ago.

    One that failed or was not ready is the last choice for a second. Safe for threads.
    """

    def __init__(self, client: Instances) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._outstanding: Counter[str] = Counter()
        self._turns = itertools.count(1)
        self._asked: dict[str, int] = {}
        self._rests_until: dict[str, float] = {}

    def get(self, addresses: Sequence[str], path: str, query: Sequence[tuple[str, str]], deadline: Deadline) -> Answer:
        """The first answer that is one, else a 503 or 504 of an instance. Raises a 503 `Problem` when none answers."""
        untried, answer = set(addresses), None
        while untried:
            with self._taken(untried) as address:
                untried.remove(address)
                # An instance that hangs must leave time to ask the next one.
                found = self._try(address, path, query, deadline.share(0.5) if untried else deadline)
            if found is not None and found.status not in ANOTHER_MAY:
                return found
            self._rests_until[address] = time.monotonic() + RETRY_AFTER_S
            answer = found or answer
        if answer is None:
            raise Problem(503, "no-instance", "no instance that answers this can be reached; ask again in 1 s")
        return answer

    @contextmanager
    def _taken(self, untried: set[str]) -> Iterator[str]:
        now = time.monotonic()
        with self._lock:
            address = min(untried, key=lambda one: self._rank(one, now))
            self._outstanding[address] += 1
            self._asked[address] = next(self._turns)
        try:
            yield address
        finally:
            with self._lock:
                self._outstanding[address] -= 1

    def _rank(self, address: str, now: float) -> tuple[bool, int, int]:
        resting = self._rests_until.get(address, 0.0) > now
        return resting, self._outstanding[address], self._asked.get(address, 0)

    def _try(self, address: str, path: str, query: Sequence[tuple[str, str]], deadline: Deadline) -> Answer | None:
        try:
            return self._client.get(address, path, deadline, query)
        except Unreachable:
            return None
        except Problem as problem:
            if problem.status not in ANOTHER_MAY:
                raise
            return None
