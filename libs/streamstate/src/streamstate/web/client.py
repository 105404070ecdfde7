"""Calls from the gateway to instances, and from one instance to another: kept-alive connections, deadlines."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, ProtocolError

from streamstate.web.bulkhead import Bulkhead
from streamstate.web.deadline import Deadline
from streamstate.web.freshness import AGE, POSITION

DIRECT = "X-Direct"
"""Marks a request that must not be forwarded again: who does not own its key answers 421."""

STAND_IN = "X-Stand-In"
"""Marks a request whose owner does not answer: who gets it answers from the state, and does not ask the owner again."""

SERVED_BY = "Served-By"
"""Names the instance that answered, `standby` when it stood in for an owner that could not be reached."""

TOLD = (SERVED_BY, POSITION, AGE)
"""The headers that go along with an answer, whoever passes it on."""

CONNECT_S = 0.5

Marks = Mapping[str, str]
"""What is asked of an instance, as headers."""

OWNER: Marks = {DIRECT: "1"}
STANDBY: Marks = {STAND_IN: "1"}
ANYONE: Marks = {}


class Unreachable(Exception):
    """An instance that gave no answer; another one may."""


class Slow(Unreachable):
    """An instance that is not asked, since too many of its answers have not come yet."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An instance's answer, problem or not; `told` is what its headers say of instance and state."""

    status: int
    body: bytes
    content_type: str
    told: Mapping[str, str]

    @property
    def served_by(self) -> str:
        return self.told.get(SERVED_BY, "")

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Instances:
    """Connections to instances by address (host:port). Safe for threads."""

    def __init__(self, threads: int) -> None:
        self._pool = urllib3.PoolManager(num_pools=64, maxsize=threads, retries=False)
        self._bulkhead = Bulkhead(max(1, threads // 2))

    def get(
        self, address: str, path: str, deadline: Deadline, query: Sequence[tuple[str, str]] = (), marks: Marks = OWNER
    ) -> Answer:
        """GET within the deadline. Raises `Unreachable`, or a 504 `Problem` when time is up."""
        call = self._bulkhead.enter(address, time.monotonic())
        if call is None:
            raise Slow(address)
        try:
            return self._asked(f"http://{address}{path}" + (f"?{urlencode(query)}" if query else ""), deadline, marks)
        finally:
            self._bulkhead.leave(address, call)

    def _asked(self, url: str, deadline: Deadline, marks: Marks) -> Answer:
        try:
            return self._once(url, deadline, marks)
        except ProtocolError:
            # Most likely a kept-alive connection that the other side closed meanwhile; reading twice does no harm.
            return self._again(url, deadline, marks)

    def _again(self, url: str, deadline: Deadline, marks: Marks) -> Answer:
        try:
            return self._once(url, deadline, marks)
        except ProtocolError as error:
            raise Unreachable(url) from error

    def _once(self, url: str, deadline: Deadline, marks: Marks) -> Answer:
        left = deadline.left
        headers = {**deadline.headers, **marks}
        timeout = urllib3.Timeout(connect=min(CONNECT_S, left), read=left)
        try:
            found = self._pool.request("GET", url, headers=headers, timeout=timeout, redirect=False)
        except ProtocolError:
            raise
        except HTTPError as error:
            # A timeout may be the deadline's: `check` then raises its own problem.
            deadline.check()
            raise Unreachable(url) from error
        told = {name: found.headers[name] for name in TOLD if name in found.headers}
        return Answer(found.status, found.data, found.headers.get("Content-Type", ""), told)
