"""Calls to the instances of a service: the owner first, then others, which are spread."""

import itertools
from collections import Counter
from collections.abc import Sequence

import msgspec

from streamstate.web.client.instances import ANYONE, OWNER, STANDBY, Instances, InstanceUnreachable, Marks, Query
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import RETRY_AFTER_S, Problem, overloaded
from streamstate.web.http.request import Response

ANOTHER_MAY = (503, 504)
"""Answers after which another instance is asked, unless they are the owner's."""

SHARE = 0.4
"""The share of the time left that one instance gets while there are others."""


class Balance:
    """After the owner, the instance with the least outstanding calls, and of several the one asked longest ago.

    One that is ill is the last choice, also when it is the owner.

    most: outstanding calls to one instance. One that has as many is as one that answers 503, and is not ill.
    """

    def __init__(self, client: Instances, most: int) -> None:
        self._client = client
        self._most = most
        self._outstanding: Counter[str] = Counter()
        self._turns = itertools.count(1)
        self._asked: dict[str, int] = {}

    async def get(
        self,
        addresses: Sequence[str],
        path: str,
        query: Query,
        deadline: Deadline,
        owner: str | None = None,
        method: str = "GET",
    ) -> Response:
        """The answer of `owner`, or the first of another instance that is one, else a 503 or 504.

        Raises a 503 `Problem` when none of `addresses` answers, or the owner has as many calls as it may.
        """
        untried, disowned, answer, full = set(addresses), set[str](), None, False
        others_as = STANDBY if owner else ANYONE
        while untried:
            address = min(untried, key=lambda each: self._rank(each, owner))
            untried.remove(address)
            if self._outstanding[address] >= self._most:
                full = True
                # An owner's calls that went to others would take the places of the keys that those own.
                if address == owner:
                    break
                continue
            # An instance that hangs must leave time to ask the next one.
            share = deadline.share(SHARE) if untried else deadline
            reply = await self._call(address, path, query, share, OWNER if address == owner else others_as, method)
            if reply is None:
                continue
            answer = reply
            if answer.status == 421 and address == owner:
                # It may stand in for the one that it names, but is not taken for the owner again.
                disowned.add(address)
                untried.add(address)
                named = msgspec.json.decode(answer.body)["owner"]
                owner, answer = None if named in disowned else named, None
            elif address == owner or answer.status not in ANOTHER_MAY:
                return answer
        if answer is None:
            raise overloaded("requests for one instance") if full else no_instance()
        return answer

    async def _call(
        self, address: str, path: str, query: Query, deadline: Deadline, marks: Marks, method: str
    ) -> Response | None:
        """The answer of `address`, None when it cannot be reached."""
        self._outstanding[address] += 1
        self._asked[address] = next(self._turns)
        try:
            return await self._client.get(address, path, deadline, query, marks, method)
        except InstanceUnreachable:
            return None
        finally:
            self._outstanding[address] -= 1

    def _rank(self, address: str, owner: str | None) -> tuple[bool, bool, int, int]:
        ill = not self._client.is_healthy(address)
        return ill, address != owner, self._outstanding[address], self._asked.get(address, 0)


def no_instance() -> Problem:
    detail = f"no instance that answers this can be reached; ask again in {RETRY_AFTER_S} s"
    return Problem(503, "no-instance", detail)
