"""Who owns which partition of which service, and which paths a service answers: read from the instances, kept fresh."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
import structlog

from services.gateway.balance import Balance
from streamstate.keys import CODECS, partition_of
from streamstate.web.client.instances import Instances
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import Problem, bad_query, not_ready
from streamstate.web.http.request import path_pattern
from streamstate.web.partition_map import PATH, Processors, ViewEntry

LOOK_S = 2.0
"""Seconds in which one of a service's instances must tell its map; while there are others, one gets a share."""

log = structlog.get_logger()

_decode = msgspec.json.Decoder(Processors).decode


class ServiceMap:
    """One service as one of its instances described it.

    owners: addresses by partition. views: by name. positions: the next offsets by topic and partition.
    """

    def __init__(self, processors: Processors) -> None:
        partitions = processors.partitions
        self.processors = processors
        self.owners = {held.partition: held.owner for held in partitions if held.owner is not None}
        self.views = {view.name: view for view in processors.views}
        self.positions = {
            (topic, held.partition): position for held in partitions for topic, position in held.positions.items()
        }
        self._patterns = [(path_pattern(view.path), view) for view in processors.views]

    def find(self, path: str) -> tuple[ViewEntry, str] | None:
        """View and key text of `path`; None when no view has such a path."""
        matches = ((view, pattern.fullmatch(path)) for pattern, view in self._patterns)
        return next(((view, match.groupdict().get("key", "")) for view, match in matches if match), None)

    def partition(self, view: ViewEntry, text: str) -> int:
        """Where the key that `text` names lies. Raises `BadKey` for text that is no key of `view`."""
        codec = CODECS[view.key]
        return partition_of(codec.encode(codec.parse(text)), self.processors.topics[view.topic])


class Owners:
    """The maps of all services. The last one known serves until a newer one is had. For one event loop.

    addresses: the instances of each service, host:port.
    ttl_s: seconds between two looks.
    """

    def __init__(self, addresses: Mapping[str, Sequence[str]], client: Instances, ttl_s: float) -> None:
        self.addresses = addresses
        self._balance = Balance(client)
        self._ttl_s = ttl_s
        self._maps: dict[str, ServiceMap] = {}
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look now and then, in the background, until `stop`."""
        self._running = asyncio.create_task(self._keep_fresh())

    async def stop(self) -> None:
        """Look no more."""
        if self._running is not None:
            self._running.cancel()

    async def service(self, name: str) -> ServiceMap:
        """The map of `name`; raises a 503 `Problem` when none of its instances ever answered."""
        known = self._maps.get(name) or await self._look(name)
        if known is None:
            raise not_ready(f"no instance of {name} answers")
        return known

    async def find(self, path: str) -> tuple[str, ViewEntry, str]:
        """Service, view and key text of `path`; raises a 404 `Problem` when no service answers such a path."""
        async for service, known in self._candidates():
            if found := known.find(path):
                return service, *found
        raise Problem(404, "not-found", "no service answers this path; see /openapi.json for those that there are")

    async def by_service(self, asked: Iterable[tuple[str, str]]) -> Mapping[str, list[tuple[str, str]]]:
        """(View name, key text) by the service that has the view; raises a 400 `Problem` for a view that none has."""
        places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, text in asked:
            places[await self._home(name)].append((name, text))
        return places

    def views(self) -> list[str]:
        """The names of all views that `/v1/many` knows."""
        return [view.name for known in self._maps.values() for view in known.processors.views if not view.anywhere]

    async def _home(self, name: str) -> str:
        async for service, known in self._candidates():
            if name in known.views and not known.views[name].anywhere:
                return service
        raise bad_query(self.views())

    async def _candidates(self) -> AsyncIterator[tuple[str, ServiceMap]]:
        """The services that are known, then those that are not yet; raises a 503 `Problem` when some stay unknown."""
        for service in [*self._maps, *self.missing()]:
            if known := self._maps.get(service) or await self._look(service):
                yield service, known
        if missing := self.missing():
            raise not_ready(f"no instance answers of: {', '.join(missing)}")

    async def document(self, service: str, path: str) -> bytes:
        """What an instance of `service` has at `path`, empty when none answers."""
        with suppress(Problem):
            deadline = Deadline(time.monotonic() + LOOK_S)
            answer = await self._balance.get(self.addresses.get(service, ()), path, (), deadline)
            if answer.status == 200:
                return answer.body
        return b""

    def look_again(self) -> None:
        """A map turned out to be old: look now."""
        self._wake.set()

    def missing(self) -> list[str]:
        """The services of which no map is known."""
        return [service for service in self.addresses if service not in self._maps]

    async def _keep_fresh(self) -> None:
        while True:
            self._wake.clear()
            await asyncio.gather(*(self._look(service) for service in self.addresses))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._ttl_s)

    async def _look(self, service: str) -> ServiceMap | None:
        """Read the map of `service`, once for all who want it now."""
        look = self._looks.get(service)
        if look is None or look.done():
            look = self._looks[service] = asyncio.create_task(self._read(service))
        await asyncio.shield(look)
        return self._maps.get(service)

    async def _read(self, service: str) -> None:
        if body := await self.document(service, PATH):
            try:
                self._maps[service] = ServiceMap(_decode(body))
            except msgspec.MsgspecError as error:
                reason = str(error)
                log.warning(
                    "the map of a service cannot be read; do the versions differ?", service=service, reason=reason
                )
