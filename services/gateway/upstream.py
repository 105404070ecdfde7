"""Calls to the instances of a service: the owner first, then the other instances, with calls balanced between them."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from streamstate.web.client.instances import ANYONE, OWNER, STANDBY, Instances, InstanceUnreachable, Query
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import RETRY_AFTER_S, Problem, overloaded
from streamstate.web.http.request import Response

RETRIED = (503, 504)
"""Statuses after which another instance is asked. From the owner, they are final."""

SHARE = 0.4
"""The share of the time left for one call while there are further instances."""


class Upstream:
    """The instances of all services: the owner first, then the least busy instance, on a tie the one asked longest ago.

    An unhealthy instance is the last choice, also when it is the owner. Another instance at the limit of outstanding
    calls is skipped; an owner at the limit ends the search.

    addresses: host:port by service. most: the limit of outstanding calls to an instance.
    moved: set when an instance other than the named owner has answered with 200.
    """

    def __init__(self, addresses: Mapping[str, Sequence[str]], client: Instances, most: int) -> None:
        self.addresses = addresses
        self.moved = asyncio.Event()
        self._client = client
        self._most = most
        self._outstanding: Counter[str] = Counter()
        self._turns = itertools.count(1)
        self._asked: dict[str, int] = {}

    async def get(
        self, service: str, owner: str | None, path: str, query: Query, deadline: Deadline, method: str = "GET"
    ) -> Response:
        """The first final answer: any of the owner, or of another instance apart from 503 and 504; else the last one.

        Raises a 503 `Problem` without any answer: no instance is reached, or an instance is at its limit.
        """
        answer = await self._first(set(self.addresses.get(service, ())), owner, path, query, deadline, method)
        if owner and answer.status == 200 and answer.served_by != owner:
            self.moved.set()
        return answer

    async def _first(
        self, untried: set[str], owner: str | None, path: str, query: Query, deadline: Deadline, method: str
    ) -> Response:
        disowned, answer, full = set[str](), None, False
        others_as = STANDBY if owner else ANYONE
        while untried:
            address = min(untried, key=lambda candidate: self._rank(candidate, owner))
            untried.remove(address)
            if self._outstanding[address] >= self._most:
                full = True
                # An owner's excess calls would take the places of other instances' own keys.
                if address == owner:
                    break
                continue
            # A hanging instance must leave time for the next instance.
            share = deadline.share(SHARE) if untried else deadline
            self._asked[address] = next(self._turns)
            self._outstanding[address] += 1
            try:
                marks = OWNER if address == owner else others_as
                answer = await self._client.get(address, path, share, query, marks, method)
            except InstanceUnreachable:
                continue
            finally:
                self._outstanding[address] -= 1
            if answer.status == 421 and address == owner:
                # Asked again, the instance stands in for the owner named in its answer.
                disowned.add(address)
                untried.add(address)
                named = msgspec.json.decode(answer.body)["owner"]
                owner, answer = None if named in disowned else named, None
            elif address == owner or answer.status not in RETRIED:
                return answer
        if answer is None:
            raise overloaded("requests for one instance") if full else no_instance()
        return answer

    def _rank(self, address: str, owner: str | None) -> tuple[bool, bool, int, int]:
        ill = not self._client.is_healthy(address)
        return ill, address != owner, self._outstanding[address], self._asked.get(address, 0)


def no_instance() -> Problem:
    detail = f"no instance of the service can be reached; ask again in {RETRY_AFTER_S} s"
    return Problem(503, "no-instance", detail)
