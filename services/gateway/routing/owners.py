"""The owner maps of all releases: partitions, owners and views, read from the instances periodically."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec
import structlog

from services.gateway.routing.directory import BESIDE, Directory, ServiceMap, service_of, unknown
from services.gateway.routing.upstream import Upstream
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import RETRY_AFTER_S, Problem
from streamstate.web.partition_map import PATH, Processors

READ_S = 2.0
"""Seconds for the map of a release; an instance gets a share while further instances are left."""

LEAST_S = 0.2
"""The least seconds between two reads."""

LIVE_S = 0.1
"""The most seconds between two reads of the maps of a service with several releases, besides `LEAST_S`.

The known live release is at most one second old."""

RELEASE = "x-release"
"""The header that names a release to answer in place of the live one."""

log = structlog.get_logger()

_decode = msgspec.json.Decoder(Processors).decode


class Owners:
    """The last known map of each release. For one event loop.

    addresses: the instances of each deployment, host:port; `service@release` is a release beside the service's own.
    ttl_s: seconds between two reads. find_releases: called before each read; may change the addresses.
    now: the live releases as known at present.
    """

    def __init__(self, upstream: Upstream, ttl_s: float, find_releases: Callable[[], object] = bool) -> None:
        self.addresses = upstream.addresses
        self.now = Directory(self.addresses, {})
        self._upstream = upstream
        self._ttl_s = ttl_s
        self._find_releases = find_releases
        self._maps: dict[str, ServiceMap] = {}
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read all maps, and read them again in the background until `stop`."""
        await self.refresh()
        self._running = asyncio.create_task(self._keep_fresh())

    async def stop(self) -> None:
        """End the reads in the background."""
        if self._running is not None:
            self._running.cancel()

    async def refresh(self, *, live_only: bool = False) -> None:
        """Read the maps of all releases, or of the services with several releases."""
        self._find_releases()
        several = {service_of(name) for name in self.addresses if BESIDE in name}
        names = [name for name in self.addresses if not live_only or service_of(name) in several]
        await asyncio.gather(*map(self._read, names))

    async def read(self, service: str) -> None:
        """Read the map of the live release of `service`; without an answer, the last map stays."""
        await self._read(self.now.maps[service].deployment if service in self.now.maps else service)

    async def _read(self, deployment: str) -> None:
        body = await self._document(deployment, PATH)
        try:
            self._maps |= {deployment: ServiceMap(deployment, _decode(body))} if body else {}
        except msgspec.MsgspecError as error:
            advice = "the map of a service cannot be read; do the versions differ?"
            log.warning(advice, service=deployment, reason=str(error))
        deployments = list(self.addresses)
        self._maps = {name: known for name, known in self._maps.items() if name in deployments}
        before, self.now = self.now, Directory(deployments, self._maps)
        for service, known in self.now.maps.items():
            if service in before.maps and before.maps[service].deployment != known.deployment:
                log.info("another release is live", service=service, release=known.processors.service)
        for path, answering, hidden in self.now.clashes - before.clashes:
            advice = "two services have one path; give one another path"
            log.warning(advice, path=path, answering=answering, hidden=hidden)

    def directory(self, headers: Mapping[str, str]) -> Directory:
        """The directory of a request with `headers`: `now`, or with the release in the header `RELEASE` as live.

        Raises a 404 `Problem` for an unknown release, and a 503 `Problem` before its first answer.
        """
        if (release := headers.get(RELEASE)) is None:
            return self.now
        for known in self._maps.values():
            if known.processors.service == release:
                return Directory(list(self.addresses), self._maps, known)
        if any(deployment.partition(BESIDE)[2] == release for deployment in self.addresses):
            raise unknown(release)
        raise Problem(404, "not-found", f"no release is called {release}; see /v1/system for those that there are")

    async def document(self, directory: Directory, service: str, path: str) -> bytes:
        """The document at `path` of an instance of `service`; empty without an answer."""
        return await self._document(directory.maps[service].deployment if service in directory.maps else service, path)

    async def _document(self, deployment: str, path: str) -> bytes:
        with suppress(Problem):
            deadline = Deadline(time.monotonic() + READ_S)
            answer = await self._upstream.get(deployment, None, path, (), deadline)
            if answer.status == 200:
                return answer.body
        return b""

    def release(self, deployment: str) -> ServiceMap | None:
        """The map of a deployment, live or not; None before its first answer."""
        return self._maps.get(deployment)

    def is_live(self, deployment: str) -> bool:
        """Whether the gateway answers from `deployment`."""
        known = self.now.maps.get(service_of(deployment))
        return known.deployment == deployment if known else BESIDE not in deployment

    async def _keep_fresh(self) -> None:
        read_at = time.monotonic()
        while True:
            ttl_s = min(self._ttl_s, RETRY_AFTER_S) if self.now.missing() else self._ttl_s
            left_s = max(0.0, read_at + ttl_s - time.monotonic())
            several = any(BESIDE in name for name in list(self.addresses))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._upstream.moved.wait(), min(left_s, LIVE_S) if several else left_s)
            live_only = not self._upstream.moved.is_set() and time.monotonic() < read_at + ttl_s
            self._upstream.moved.clear()
            await self.refresh(live_only=live_only)
            read_at = read_at if live_only else time.monotonic()
            # Each answer of a stand-in sets `moved`.
            await asyncio.sleep(LEAST_S)
