"""Calls from the gateway to instances, and from one instance to another: kept-alive connections, deadlines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, ProtocolError

from streamstate.web.deadline import Deadline
from streamstate.web.freshness import AGE, POSITION

DIRECT = "X-Direct"
"""Marks a request that must not be forwarded again: who does not own its key answers 421."""

SERVED_BY = "Served-By"
"""Names the instance that answered, `standby` when it stood in for an owner that could not be reached."""

TOLD = (SERVED_BY, POSITION, AGE)
"""The headers that go along with an answer, whoever passes it on."""

CONNECT_S = 0.5


class Unreachable(Exception):
    """An instance that gave no answer; another one may."""


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

    def get(
        self, address: str, path: str, deadline: Deadline, query: Sequence[tuple[str, str]] = (), *, direct: bool = True
    ) -> Answer:
        """GET within the deadline. Raises `Unreachable`, or a 504 `Problem` when time is up."""
        url = f"http://{address}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            return self._once(url, deadline, direct)
        except ProtocolError:
            # Most likely a kept-alive connection that the other side closed meanwhile; reading twice does no harm.
            return self._again(url, deadline, direct)

    def _again(self, url: str, deadline: Deadline, direct: bool) -> Answer:
        try:
            return self._once(url, deadline, direct)
        except ProtocolError as error:
            raise Unreachable(url) from error

    def _once(self, url: str, deadline: Deadline, direct: bool) -> Answer:
        left = deadline.left
        headers = {**deadline.headers, **({DIRECT: "1"} if direct else {})}
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
