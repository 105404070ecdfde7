"""The owner maps of all services: partitions, owners and views, read from the instances periodically."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import unquote

import msgspec
import structlog

from services.gateway.upstream import Upstream
from streamstate.keys import CODECS, partition_of
from streamstate.view import READ, Part
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import RETRY_AFTER_S, Problem, bad_query, not_ready
from streamstate.web.partition_map import PATH, Processors, ViewEntry

READ_S = 2.0
"""Seconds for the map of a service; an instance gets a share while further instances are left."""

LEAST_S = 0.2
"""The least seconds between two reads."""

log = structlog.get_logger()

_decode = msgspec.json.Decoder(Processors).decode


class ServiceMap:
    """A service, as described by an instance.

    owners: addresses by partition. views: by name. positions: the next offsets by topic and partition.
    """

    def __init__(self, service: str, processors: Processors) -> None:
        partitions = processors.partitions
        self.service = service
        self.processors = processors
        self.owners = {held.partition: held.owner for held in partitions if held.owner is not None}
        self.views = {view.name: view for view in processors.views}
        self.positions = {
            (topic, held.partition): position for held in partitions for topic, position in held.positions.items()
        }

    def partition(self, view: ViewEntry, text: str) -> int:
        """The partition of the key `text`. Raises `BadKey` for text that is no key of `view`."""
        codec = CODECS[view.key]
        return partition_of(codec.encode(codec.parse(text)), self.processors.topics[view.topic])


Located = tuple[ServiceMap, ViewEntry]
"""A view and its service."""

LocatedPart = tuple[ServiceMap, ViewEntry, Part]


class Owners:
    """The last known map of each service. For one event loop.

    addresses: the instances of each service, host:port.
    ttl_s: seconds between two reads.
    views: of all known services, in the order of `addresses`.
    parts: the parts of `/v1/users/{id}` by name, the required part first.
    keyed: the services of the views of `/v1/many`, by the view's name.
    """

    def __init__(self, upstream: Upstream, ttl_s: float) -> None:
        self.addresses = upstream.addresses
        self.views: Sequence[Located] = ()
        self.parts: Mapping[str, LocatedPart] = {}
        self.keyed: Mapping[str, ServiceMap] = {}
        self._upstream = upstream
        self._ttl_s = ttl_s
        self._maps: dict[str, ServiceMap] = {}
        self._by_path: Mapping[str, Located] = {}
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read all maps, and read them again in the background until `stop`."""
        await self.refresh()
        self._running = asyncio.create_task(self._keep_fresh())

    async def stop(self) -> None:
        """End the reads in the background."""
        if self._running is not None:
            self._running.cancel()

    async def refresh(self) -> None:
        """Read the maps of all services."""
        await asyncio.gather(*map(self.read, self.addresses))

    async def read(self, service: str) -> None:
        """Read the map of `service`; without an answer, the last map stays."""
        body = await self.document(service, PATH)
        try:
            self._maps |= {service: ServiceMap(service, _decode(body))} if body else {}
        except msgspec.MsgspecError as error:
            advice = "the map of a service cannot be read; do the versions differ?"
            log.warning(advice, service=service, reason=str(error))
        maps = [self._maps[service] for service in self.addresses if service in self._maps]
        self.views = [(known, view) for known in maps for view in known.processors.views]
        self.keyed = {view.name: known for known, view in self.views if not view.anywhere}
        self._by_path = {view.path: (known, view) for known, view in self.views}
        parts = [(known, view, view.part) for known, view in self.views if view.part and view.scope == READ]
        parts.sort(key=lambda part: not part[2].required)
        self.parts = {view.name: (known, view, part) for known, view, part in parts}

    async def document(self, service: str, path: str) -> bytes:
        """The document at `path` of an instance of `service`; empty without an answer."""
        with suppress(Problem):
            deadline = Deadline(time.monotonic() + READ_S)
            answer = await self._upstream.get(service, None, path, (), deadline)
            if answer.status == 200:
                return answer.body
        return b""

    def missing(self) -> list[str]:
        """The services without a known map."""
        return [service for service in self.addresses if service not in self._maps]

    def absent(self, problem: Problem) -> Problem:
        """The `problem` of an unknown name; a 503 `Problem` while a missing service may know the name."""
        return unknown(", ".join(missing)) if (missing := self.missing()) else problem

    def service(self, name: str) -> ServiceMap:
        """The map of the service `name`; raises a 503 `Problem` before its first answer."""
        if name not in self._maps:
            raise unknown(name)
        return self._maps[name]

    def with_keys(self, view: str) -> ServiceMap:
        """The service whose owners answer `view` by key; raises a 400 `Problem` for an unknown view."""
        if view not in self.keyed:
            raise self.absent(bad_query(self.keyed))
        return self.keyed[view]

    def find(self, path: str) -> tuple[ServiceMap, ViewEntry, str]:
        """Service, view and key text of the percent-encoded `path`. Raises a 404 `Problem` for an unknown path."""
        segments = path.split("/")
        # All paths begin with /v1/.
        for place in range(2, len(segments)):
            template = "/".join([*segments[:place], "<key>", *segments[place + 1 :]])
            if segments[place] and (located := self._by_path.get(template)):
                return *located, unquote(segments[place])
        if located := self._by_path.get(path):
            return *located, ""
        raise self.absent(not_found())

    async def _keep_fresh(self) -> None:
        while True:
            pause = min(self._ttl_s, RETRY_AFTER_S) if self.missing() else self._ttl_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._upstream.moved.wait(), pause)
            self._upstream.moved.clear()
            await self.refresh()
            # Each answer of a stand-in sets `moved`.
            await asyncio.sleep(LEAST_S)


def unknown(service: str) -> Problem:
    return not_ready(f"no instance of {service} answers")


def not_found() -> Problem:
    return Problem(404, "not-found", "no service answers this path; see /openapi.json for those that there are")
