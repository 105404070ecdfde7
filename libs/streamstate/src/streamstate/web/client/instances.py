"""Calls from the gateway to instances, and between instances: deadlines, and the health of instances."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlencode

import structlog

from streamstate.deployment import tracing
from streamstate.deployment.address import Address
from streamstate.web.access.certificates import ToInstances
from streamstate.web.access.internal import InternalTokens
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import CONTENT_TYPE
from streamstate.web.http.request import AGE, BEGIN, JSON, POSITION, SERVED_BY, STATE_BYTES, Response
from strictasgi.client import ConnectionPool
from strictasgi.overdue import Overdue

log = structlog.get_logger()

DIRECT = "X-Direct"
"""Marks a request that must not be forwarded again: an instance other than the key's owner answers 421."""

STAND_IN = "X-Stand-In"
"""Marks a request whose owner does not answer: the receiver answers from the state, without asking the owner again."""

PATIENCE_S = 0.25
"""An instance may take so long for an answer, and is not ill yet."""

_KEPT = ("Content-Type", "Retry-After", SERVED_BY, POSITION, BEGIN, AGE, STATE_BYTES)
"""The headers of an answer that every forwarder passes on."""

PROBE = "/livez"
PROBE_S = 0.25
PROBES = 480
"""Two minutes: then an instance is asked again, if it still exists."""

Query = Sequence[tuple[str, str]]
"""The parameters of a request, in order."""

Marks = Mapping[str, str]
"""Headers that tell an instance how to answer."""

OWNER: Marks = {DIRECT: "1"}
STANDBY: Marks = {STAND_IN: "1"}
ANYONE: Marks = {}


def same_service(address: str, other: str) -> bool:
    """Whether `other` can be an instance of the service of `address` (host:port).

    True for the same host, or for the same port and domain name behind the first label, as for the pods of a
    StatefulSet. A token must not be sent to an address known from the state only.
    """
    own, named = Address.parse(address), Address.parse(other)
    if own.host == named.host:
        return True
    domain, named_domain = own.host.partition(".")[2], named.host.partition(".")[2]
    return own.is_name and bool(domain) and (domain, own.port) == (named_domain, named.port)


class InstanceUnreachable(Exception):
    """An instance gave no answer; another instance may answer."""


class Instances:
    """Instances by address (host:port). For one event loop.

    An instance is ill from a missing answer until an answer to a probe: meanwhile, only probes wait for the instance.
    """

    def __init__(self, tokens: InternalTokens | None = None, tls: ToInstances | None = None, name: str = "") -> None:
        """tokens: the tokens for instances; None where access is off. tls: the TLS of calls; None for plain HTTP.

        name: the name of this process in traces.
        """
        self._tokens = tokens
        self._connections, spans = ConnectionPool(Response, _KEPT, tls.for_host if tls else None), tracing.spans(name)
        self._ask = self._connections.ask if spans is None else spans.called(self._connections.ask)
        self._overdue = Overdue()
        self._ill: dict[str, asyncio.Task[None]] = {}

    async def get(
        self,
        address: str,
        path: str,
        deadline: Deadline,
        query: Query = (),
        marks: Marks = OWNER,
        method: str = "GET",
    ) -> Response:
        """The answer within the deadline, in JSON only. Raises `InstanceUnreachable` without an answer."""
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {**deadline.headers, **marks, **(self._tokens.headers if self._tokens else {})}
        started = time.monotonic()
        try:
            answer = await self._overdue.limit(self._ask(address, target, headers, method), deadline.at)
        except OSError as error:
            # A caller in a hurry does not make an instance ill.
            if not isinstance(error, TimeoutError) or time.monotonic() - started > PATIENCE_S:
                self._falls_ill(address, str(error) or "no answer in time")
            raise InstanceUnreachable(address) from error
        if answer.status == 401:
            # The caller's own credential was fine; the reader of this log can fix the token.
            self._falls_ill(address, "it refuses the internal token; compare the files of INTERNAL_TOKENS")
            raise InstanceUnreachable(address)
        if size := answer.headers.get(STATE_BYTES):
            deadline.spent.state_bytes += int(size)
            headers = {name: text for name, text in answer.headers.items() if name != STATE_BYTES}
            answer = answer._replace(headers=headers)
        content_type = answer.headers.get("Content-Type")
        if content_type not in (JSON, CONTENT_TYPE):
            msg = f"{address} answered {content_type or 'without a type'}, not JSON"
            raise InstanceUnreachable(msg)
        return answer

    def is_healthy(self, address: str) -> bool:
        """Whether the instance answered lately, or was not asked yet."""
        return address not in self._ill

    async def close(self) -> None:
        """End background probes, and the connections."""
        for probing in self._ill.values():
            probing.cancel()
        self._connections.close()

    def _falls_ill(self, address: str, reason: str) -> None:
        if self.is_healthy(address):
            log.warning("an instance does not answer; it is left alone until it does", address=address, reason=reason)
            self._ill[address] = asyncio.create_task(self._probe(address))

    async def _probe(self, address: str) -> None:
        for _ in range(PROBES):
            await asyncio.sleep(PROBE_S)
            with suppress(OSError):
                async with asyncio.timeout(PROBE_S):
                    await self._connections.ask(address, PROBE, {})
                log.info("an instance answers again", address=address)
                break
        del self._ill[address]
