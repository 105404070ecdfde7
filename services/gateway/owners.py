"""Who owns which partition of which service, and which paths a service answers: read from the instances, kept fresh."""

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

LOOK_S = 2.0
"""Seconds in which one of a service's instances must tell its map; while there are others, one gets a share."""

LEAST_S = 0.2
"""Seconds between two looks, whatever happens."""

log = structlog.get_logger()

_decode = msgspec.json.Decoder(Processors).decode


class ServiceMap:
    """One service as one of its instances described it.

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
        """Where the key that `text` names lies. Raises `BadKey` for text that is no key of `view`."""
        codec = CODECS[view.key]
        return partition_of(codec.encode(codec.parse(text)), self.processors.topics[view.topic])


Located = tuple[ServiceMap, ViewEntry]
"""A view, and the service that has it."""

LocatedPart = tuple[ServiceMap, ViewEntry, Part]


class Owners:
    """The maps of all services. The last one known serves until a newer one is had. For one event loop.

    addresses: the instances of each service, host:port.
    ttl_s: seconds between two looks.
    views: those of all services that are known, in the order of `addresses`.
    parts: the parts of `/v1/users/{id}` among them by name, the required one first.
    keyed: the service of each view that `/v1/many` knows, by the view's name.
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
        """Look, and go on looking in the background until `stop`."""
        await self.refresh()
        self._running = asyncio.create_task(self._keep_fresh())

    async def stop(self) -> None:
        """Look no more."""
        if self._running is not None:
            self._running.cancel()

    async def refresh(self) -> None:
        """Read the maps of all services."""
        await asyncio.gather(*map(self.read, self.addresses))

    async def read(self, service: str) -> None:
        """Read the map of `service`; the one before stays when no instance tells it."""
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
        """What an instance of `service` has at `path`, empty when none answers."""
        with suppress(Problem):
            deadline = Deadline(time.monotonic() + LOOK_S)
            answer = await self._upstream.get(service, None, path, (), deadline)
            if answer.status == 200:
                return answer.body
        return b""

    def missing(self) -> list[str]:
        """The services of which no map is known."""
        return [service for service in self.addresses if service not in self._maps]

    def absent(self, problem: Problem) -> Problem:
        """`problem`, which says that there is no such thing; a 503 one while services are missing that may have it."""
        return unknown(", ".join(missing)) if (missing := self.missing()) else problem

    def service(self, name: str) -> ServiceMap:
        """The map of `name`; raises a 503 `Problem` when none of its instances ever answered."""
        if name not in self._maps:
            raise unknown(name)
        return self._maps[name]

    def with_keys(self, view: str) -> ServiceMap:
        """The service whose owners answer `view` by key; raises a 400 `Problem` for a view that none has."""
        if view not in self.keyed:
            raise self.absent(bad_query(self.keyed))
        return self.keyed[view]

    def find(self, path: str) -> tuple[ServiceMap, ViewEntry, str]:
        """Service, view and key text of `path`, which is percent-encoded.

        Raises a 404 `Problem` when no service answers such a path.
        """
        segments = path.split("/")
        # All of them begin with /v1/.
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
            # While an owner is away, each of its answers by another one wakes this up.
            await asyncio.sleep(LEAST_S)


def unknown(service: str) -> Problem:
    return not_ready(f"no instance of {service} answers")


def not_found() -> Problem:
    return Problem(404, "not-found", "no service answers this path; see /openapi.json for those that there are")
