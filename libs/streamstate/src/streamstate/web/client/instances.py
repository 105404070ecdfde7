"""Calls from the gateway to instances, and from one instance to another: deadlines, and who is ill."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec
import structlog

from streamstate.web.client.connections import Connections
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import CONTENT_TYPE, RETRY_AFTER_S
from streamstate.web.http.request import AGE, BEGIN, JSON, POSITION, SERVED_BY, Response

log = structlog.get_logger()

DIRECT = "X-Direct"
"""Marks a request that must not be forwarded again: who does not own its key answers 421."""

STAND_IN = "X-Stand-In"
"""Marks a request whose owner does not answer: who gets it answers from the state, and does not ask the owner again."""

TOLD = (SERVED_BY, POSITION, BEGIN, AGE)
"""The headers that go along with an answer, whoever passes it on."""

_TOLD = {name: name.lower().encode() for name in TOLD}

PATIENCE_S = 0.25
"""An instance may take so long for an answer, and is not ill yet."""

PROBE = "/livez"
PROBE_S = 0.25
PROBES = 480
"""Two minutes: then an instance is asked again, if there still is one."""

Marks = Mapping[str, str]
"""What is asked of an instance, as headers."""

OWNER: Marks = {DIRECT: "1"}
STANDBY: Marks = {STAND_IN: "1"}
ANYONE: Marks = {}


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
    """Instances by address (host:port). For one event loop.

    One that gave no answer is ill until it answers a probe: only probes wait for it then.
    """

    def __init__(self) -> None:
        self._connections = Connections()
        self._ill: dict[str, asyncio.Task[None]] = {}

    async def get(
        self, address: str, path: str, deadline: Deadline, query: Sequence[tuple[str, str]] = (), marks: Marks = OWNER
    ) -> Answer:
        """GET within the deadline; only JSON counts as an answer. Raises `Unreachable` when none comes."""
        target = f"{path}?{urlencode(query)}" if query else path
        started = time.monotonic()
        try:
            async with asyncio.timeout_at(deadline.at):
                found = await self._connections.get(address, target, {**deadline.headers, **marks})
        except OSError as error:
            # A caller in a hurry does not make an instance ill.
            if not isinstance(error, TimeoutError) or time.monotonic() - started > PATIENCE_S:
                self._falls_ill(address, str(error) or "no answer in time")
            raise Unreachable(address) from error
        content_type = found.headers.get(b"content-type", b"").decode("latin-1")
        if content_type not in (JSON, CONTENT_TYPE):
            msg = f"{address} answered {content_type or 'without a type'}, not JSON"
            raise Unreachable(msg)
        told = {name: found.headers[raw].decode("latin-1") for name, raw in _TOLD.items() if raw in found.headers}
        return Answer(found.status, found.body, content_type, told)

    def well(self, address: str) -> bool:
        """Whether the instance answered lately, or was not asked yet."""
        return address not in self._ill

    def well_first(self, addresses: Iterable[str]) -> list[str]:
        """`addresses` in their order, but those that are ill last."""
        return sorted(addresses, key=lambda address: not self.well(address))

    async def close(self) -> None:
        """End what runs in the background, and the connections."""
        for probing in self._ill.values():
            probing.cancel()
        self._connections.close()

    def _falls_ill(self, address: str, reason: str) -> None:
        if self.well(address):
            log.warning("an instance does not answer; it is left alone until it does", address=address, reason=reason)
            self._ill[address] = asyncio.create_task(self._probe(address))

    async def _probe(self, address: str) -> None:
        for _ in range(PROBES):
            await asyncio.sleep(PROBE_S)
            with suppress(OSError):
                async with asyncio.timeout(PROBE_S):
                    await self._connections.get(address, PROBE, {})
                log.info("an instance answers again", address=address)
                break
        del self._ill[address]


def relay(answer: Answer) -> Response:
    """Another instance's answer, as it is."""
    headers = {"Content-Type": answer.content_type, **answer.told}
    if answer.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    return Response(answer.status, answer.body, headers)
