"""Calls to the instances of a service: the owner first, then the other instances, with calls balanced between them."""

import asyncio
import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from streamstate.web.client.instances import ANYONE, OWNER, STANDBY, Instances, InstanceUnreachable, Marks, Query
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import RETRY_AFTER_S, Problem, overloaded
from streamstate.web.http.request import Response

RETRIED = (503, 504)
"""Statuses after which another instance is asked. From the owner, they are final."""

SHARE = 0.4
"""The share of the time left for one call while there are further instances."""


CROWD = 8
"""Outstanding calls to an instance from which another instance answers for the same key."""


class Upstream:
    """The instances of all services: the owner first, then the least busy instance, on a tie the one asked longest ago.

    Where any instance answers for a key, the same instance is asked first while it has few outstanding calls
    (rendezvous hashing: Thaler & Ravishankar, IEEE/ACM ToN 6(1), 1998): it may have kept an answer.

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
        self,
        service: str,
        owner: str | None,
        path: str,
        query: Query,
        deadline: Deadline,
        method: str = "GET",
        key: str = "",
    ) -> Response:
        """The first final answer: any of the owner, or of another instance apart from 503 and 504; else the last one.

        `key`: the key for which any instance answers. Raises a 503 `Problem` without any answer: no instance is
        reached, or an instance is at its limit.
        """
        untried, full, disowned = set(self.addresses.get(service, ())), set[str](), set[str]()
        named, answer = owner, None
        while (address := self._next(untried, full, owner, key)) is not None:
            # A hanging instance must leave time for the next instance.
            share = deadline.share(SHARE) if untried else deadline
            marks = OWNER if address == owner else STANDBY if named else ANYONE
            if (given := await self._ask(address, path, share, query, marks, method)) is None:
                continue
            answer = given
            if answer.status == 421 and address == owner:
                # Asked again, the instance stands in for the owner named in its answer.
                disowned.add(address)
                untried.add(address)
                other = msgspec.json.decode(answer.body)["owner"]
                owner, answer = None if other in disowned else other, None
            elif address == owner or answer.status not in RETRIED:
                break
        if answer is None:
            raise overloaded("requests for one instance") if full else no_instance()
        if named and answer.status == 200 and answer.served_by != named:
            self.moved.set()
        return answer

    def _next(self, untried: set[str], full: set[str], owner: str | None, key: str) -> str | None:
        """Move the next instance to ask out of `untried`, and instances at the limit before it to `full`."""
        while untried:
            address = min(untried, key=lambda candidate: self._rank(candidate, owner, key))
            untried.remove(address)
            if self._outstanding[address] < self._most:
                return address
            full.add(address)
            # An owner's excess calls would take the places of other instances' own keys.
            if address == owner:
                break
        return None

    async def _ask(
        self, address: str, path: str, deadline: Deadline, query: Query, marks: Marks, method: str
    ) -> Response | None:
        """The answer of an instance; None without one."""
        self._asked[address] = next(self._turns)
        self._outstanding[address] += 1
        try:
            return await self._client.get(address, path, deadline, query, marks, method)
        except InstanceUnreachable:
            return None
        finally:
            self._outstanding[address] -= 1

    def _rank(self, address: str, owner: str | None, key: str) -> tuple[bool, bool, int, int]:
        ill, outstanding = not self._client.is_healthy(address), self._outstanding[address]
        if not key:
            return ill, address != owner, outstanding, self._asked.get(address, 0)
        drawn = int.from_bytes(hashlib.blake2b(f"{address} {key}".encode(), digest_size=8).digest(), "big")
        return ill, address != owner, outstanding // CROWD, drawn


def no_instance() -> Problem:
    detail = f"no instance of the service can be reached; ask again in {RETRY_AFTER_S} s"
    return Problem(503, "no-instance", detail)
