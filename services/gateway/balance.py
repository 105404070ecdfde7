"""Calls that any instance of a service can answer: spread, and asked of another one when the first does not answer."""

import itertools
from collections import Counter
from collections.abc import Sequence

from streamstate.web.client.instances import OWNER, Instances, Marks, Query, Unreachable
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import Problem
from streamstate.web.http.request import Response

ANOTHER_MAY = (503, 504)
"""Answers after which another instance is asked."""

SHARE = 0.4
"""The share of the time left that one instance gets while there are others."""


class Balance:
    """The instance with the least outstanding calls is asked, and of several the one that was asked longest ago.

    One that is ill is the last choice.
    """

    def __init__(self, client: Instances) -> None:
        self._client = client
        self._outstanding: Counter[str] = Counter()
        self._turns = itertools.count(1)
        self._asked: dict[str, int] = {}

    async def get(
        self, addresses: Sequence[str], path: str, query: Query, deadline: Deadline, marks: Marks = OWNER
    ) -> Response:
        """The first answer that is one, else a 503 or 504 of an instance. Raises a 503 `Problem` when none answers."""
        untried, answer = set(addresses), None
        while untried:
            address = min(untried, key=self._rank)
            untried.remove(address)
            self._outstanding[address] += 1
            self._asked[address] = next(self._turns)
            try:
                # An instance that hangs must leave time to ask the next one.
                share = deadline.share(SHARE) if untried else deadline
                answer = await self._client.get(address, path, share, query, marks)
            except Unreachable:
                continue
            finally:
                self._outstanding[address] -= 1
            if answer.status not in ANOTHER_MAY:
                return answer
        if answer is None:
            raise Problem(503, "no-instance", "no instance that answers this can be reached; ask again in 1 s")
        return answer

    def _rank(self, address: str) -> tuple[bool, int, int]:
        return not self._client.well(address), self._outstanding[address], self._asked.get(address, 0)
