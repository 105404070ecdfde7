"""Watched users: a profile is read again when the state of the user's partition has moved."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import msgspec

from services.gateway.access.limits import OwnBuckets
from services.gateway.documents import PROFILE
from services.gateway.routing.directory import Directory, LocatedPart
from services.gateway.routing.owners import Owners
from services.gateway.routing.router import Router
from services.gateway.streams.watched import UNREAD, Watched, by_partition, moved
from services.gateway.users import PARTS, Users, members, part_names, requested
from streamstate.errors import StreamStateError
from streamstate.web.client.instances import Query
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import LatestEvent, ServerSentEvent
from streamstate.web.http.problems import Problem
from streamstate.web.partition_map import VERSIONS

AT_A_TIME = 50
"""Users of one call. An owner answers other requests between two calls."""

LEAST_PAUSE_S = 0.01
"""The pause between two polls."""

MOST_DRAWING = 16
"""Users whose drawn parts are read at the same time."""

MOST_PER_S = 10
"""Reads of drawn parts a second, of all users: a read may cost ten times as much as a read at the owner."""


class Watch:
    """Polls the positions of partitions, once for all clients, while a client watches.

    A poll reads only users of moved partitions, and publishes only changed profiles. After a change, drawn parts are
    read as soon as `MOST_PER_S` allows, and published on arrival.

    poll_s: the least seconds of a poll; its calls are spread over the time. timeout_s: of a call. For one event loop.
    """

    def __init__(self, owners: Owners, router: Router, users: Users, poll_s: float, timeout_s: float) -> None:
        self._owners = owners
        self._router = router
        self._users = users
        self._poll_s = poll_s
        self._timeout_s = timeout_s
        self._watched: dict[tuple[str, frozenset[str]], Watched] = {}
        self._slots = asyncio.Semaphore(MOST_DRAWING)
        self._budget = OwnBuckets()
        self._outdated: dict[Watched, None] = {}
        self._polling: asyncio.Task[None] | None = None

    async def begin(self, user: str, query: Query, deadline: Deadline) -> AbstractContextManager[LatestEvent]:
        """The profile of a user with the parts of `query`, kept current in the body.

        Raises a `Problem` for an unknown part, or when the first part cannot be read.
        """
        return self._watching(await self._find(user, query, deadline))

    async def _find(self, user: str, query: Query, deadline: Deadline) -> Watched:
        names = frozenset(part_names(query))
        if known := self._watched.get((user, names)):
            return known
        watched, at = Watched(user, names), self._owners.now
        first, *others = self._keyed(at, names)
        reads = (self._update(at, part, [watched]) for part in others)
        await asyncio.gather(self._read(at, first, [watched], deadline), *reads)
        return watched

    @contextmanager
    def _watching(self, found: Watched) -> Iterator[LatestEvent]:
        watched = self._watched.setdefault((found.user, found.names), found)
        watched.clients += 1
        if watched.clients == 1:
            self._publish_soon(watched)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._keep_polling())
        try:
            yield watched.latest
        finally:
            watched.clients -= 1
            if not watched.clients:
                del self._watched[watched.user, watched.names]
                self._outdated.pop(watched, None)

    async def _keep_polling(self) -> None:
        while self._watched:
            ends = time.monotonic() + self._poll_s
            await self._poll(ends)
            await self._draw_again()
            await asyncio.sleep(max(LEAST_PAUSE_S, ends - time.monotonic()))

    async def _draw_again(self) -> None:
        """Start reads of the drawn parts of outdated users, as many as the budget allows."""
        idle = [watched for watched in self._outdated if watched.drawing is None or watched.drawing.done()]
        for watched in idle:
            if not (await self._budget.lease(PARTS, MOST_PER_S, needed=1, wanted=1)).given:
                break
            watched.drawing = asyncio.create_task(self._draw(watched))

    async def _poll(self, ends: float) -> None:
        """Read the keyed parts of users of moved partitions, spread until `ends`."""
        by_names: defaultdict[frozenset[str], list[Watched]] = defaultdict(list)
        for watched in self._watched.values():
            by_names[watched.names].append(watched)
        at = self._owners.now
        keyed = (part for names in by_names for part in self._known(self._keyed, at, names))
        await asyncio.gather(*map(self._owners.read, {part.known.service for part in keyed}))
        at, by_part = self._owners.now, defaultdict[str, list[Watched]](list)
        for names, group in by_names.items():
            for part in self._known(self._keyed, at, names):
                by_part[part.view.name] += group
            drawn_from = _releases(self._known(self._drawn, at, names))
            self._outdated |= {one: None for one in group if one.drawn and one.drawn_from != drawn_from}
        updates = (self._update_moved(at, at.parts[name], group, ends) for name, group in by_part.items())
        await asyncio.gather(*updates)

    async def _update_moved(self, at: Directory, part: LocatedPart, group: Sequence[Watched], ends: float) -> None:
        """Read a part for the users of moved partitions, until `ends` or longer."""
        late = moved(part, group)
        for first in range(0, len(late), AT_A_TIME):
            started = time.monotonic()
            await self._update(at, part, late[first : first + AT_A_TIME])
            now, left = time.monotonic(), len(late) - first
            # At least half of the time is left to other requests of owners and of this process.
            await asyncio.sleep(max(now - started, (ends - now) * min(1, AT_A_TIME / left)))

    async def _update(self, at: Directory, part: LocatedPart, group: Sequence[Watched]) -> None:
        """Read a part of a group, and publish changed profiles. After a failure, the next poll reads the part."""
        _, view, _ = part
        with suppress(StreamStateError):
            versions = await self._changed(at, part, group) if view.versioned else dict.fromkeys(group)
            if not versions:
                return
            for watched in await self._read(at, part, list(versions), self._deadline()):
                if watched.clients:
                    self._outdated[watched] = None
                    self._publish_soon(watched)
            for watched, version in versions.items():
                watched.versions[view.name] = version

    async def _changed(self, at: Directory, part: LocatedPart, group: Sequence[Watched]) -> dict[Watched, Any]:
        """The versions of outdated answers. Other answers of `group` get the present positions."""
        known, view, _ = part
        users = dict.fromkeys(watched.user for watched in group)
        deadline = self._deadline()
        versions, positions = await self._router.many_at(at, [(view.name, user) for user in users], deadline, VERSIONS)
        places, changed = by_partition(positions), {}
        for watched in group:
            version = known.deployment, versions[view.name][watched.user]
            if watched.versions.get(view.name, UNREAD) == version:
                watched.places[view.name] = known.deployment, places.get(known.partition(view, watched.user), {})
            else:
                changed[watched] = version
        return changed

    def _deadline(self) -> Deadline:
        return Deadline(time.monotonic() + self._timeout_s)

    async def _read(
        self, at: Directory, part: LocatedPart, group: Sequence[Watched], deadline: Deadline
    ) -> list[Watched]:
        """Read a part of `group`; returns the users with a changed answer. Raises a `Problem` without an answer."""
        known, view, _ = part
        users = dict.fromkeys(watched.user for watched in group)
        answers, positions = await self._router.many_at(at, [(view.name, user) for user in users], deadline)
        places, changed = by_partition(positions), []
        for watched in group:
            place = known.deployment, places.get(known.partition(view, watched.user), {})
            if watched.replace(view.name, place, answers[view.name][watched.user]):
                changed.append(watched)
        return changed

    def _publish_soon(self, watched: Watched) -> None:
        watched.unpublished = True
        if watched.clients and (watched.publishing is None or watched.publishing.done()):
            watched.publishing = asyncio.create_task(self._publish(watched))

    async def _publish(self, watched: Watched) -> None:
        """Join the answers, with names, and publish the profile, until no answer has changed meanwhile."""
        while watched.unpublished:
            at = self._owners.now
            parts = self._select(at, watched.names)
            first = parts[0].view.name
            if watched.drawn is None and watched.answers.get(first, b"") is not None:
                await self._draw(watched)
            watched.unpublished = False
            position, answers = watched.position, {**(watched.drawn or {}), **watched.answers}
            profile = None if answers[first] is None else await self._profile(at, watched, parts, answers)
            watched.latest.publish(ServerSentEvent(PROFILE, position, msgspec.json.encode(profile)))

    async def _draw(self, watched: Watched) -> None:
        """Read the drawn parts."""
        async with self._slots:
            self._outdated.pop(watched, None)
            changes, deadline = watched.changes, self._deadline()
            at = self._owners.now
            parts = [part for part in self._select(at, watched.names) if part.view.name not in watched.answers]
            reads = (self._users.part(part, watched.user, watched.query, deadline) for part in parts)
            encoded = map(msgspec.json.encode, await asyncio.gather(*reads))
            watched.drawn = {part.view.name: body for part, body in zip(parts, encoded, strict=True)}
            watched.drawn_at, watched.drawn_from = changes, _releases(self._drawn(at, watched.names))
        self._publish_soon(watched)

    async def _profile(
        self, at: Directory, watched: Watched, parts: Sequence[LocatedPart], answers: Mapping[str, bytes | None]
    ) -> dict[str, Any]:
        """The joined `answers` of `parts`, with names."""
        bodies = [members(part, msgspec.json.decode(answers.get(part.view.name) or b"null")) for part in parts]
        return await self._users.profile(at, bodies, parts, watched.query, self._deadline())

    def _keyed(self, at: Directory, names: Iterable[str]) -> Sequence[LocatedPart]:
        """The keyed parts called `names`, the first part first; without any, the first default part.

        So drawn parts alone are read again at changes of the first default part.
        """
        return [part for part in self._select(at, names) if not part.view.anywhere] or self._select(at, ())[:1]

    def _drawn(self, at: Directory, names: Iterable[str]) -> Sequence[LocatedPart]:
        keyed = {part.view.name for part in self._keyed(at, names)}
        return [part for part in self._select(at, names) if part.view.name not in keyed]

    @staticmethod
    def _known(
        parts: Callable[..., Sequence[LocatedPart]], at: Directory, names: Iterable[str]
    ) -> Sequence[LocatedPart]:
        """The parts; empty where the live release lacks a watched part."""
        with suppress(Problem):
            return parts(at, names)
        return ()

    @staticmethod
    def _select(at: Directory, names: Iterable[str]) -> Sequence[LocatedPart]:
        return requested(at, [(PARTS, name) for name in names])


def _releases(parts: Iterable[LocatedPart]) -> Sequence[str]:
    return [part.known.deployment for part in parts]
