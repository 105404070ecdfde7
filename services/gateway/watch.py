"""Watched users: a profile is read again when the state of the user's partition has moved."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import msgspec

from services.gateway.documents import PROFILE
from services.gateway.limits import OwnBuckets
from services.gateway.owners import LocatedPart, Owners
from services.gateway.router import Router
from services.gateway.users import PARTS, Users, members, part_names
from streamstate.errors import StreamStateError
from streamstate.state.store import TopicPartition
from streamstate.web.client.instances import Query
from streamstate.web.freshness import Positions, offsets_text
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import LatestEvent, ServerSentEvent
from streamstate.web.partition_map import VERSIONS

EXPLAINED = ("explain", "true")

AT_A_TIME = 50
"""Users of one call. An owner answers other requests between two calls."""

LEAST_PAUSE_S = 0.01
"""The pause between two polls."""

UNREAD = object()
"""The version of an unread answer."""

MOST_DRAWING = 16
"""Users whose drawn parts are read at the same time."""

MOST_PER_S = 10
"""Reads of drawn parts a second, of all users: a read may cost ten times as much as a read at the owner."""


@dataclass(eq=False)
class Watched:
    """A user and part names (none: the default parts) with watching clients; `latest` is the profile.

    A *keyed* part is answered by the owner of the user's partition, a *drawn* part by any instance. Answers are JSON: a
    thousand decoded answers would be hundreds of thousands of objects for the garbage collector.

    answers: of the keyed parts by name; None for a user unknown to the part.
    places: the positions of the user's partition at the reads of `answers`.
    versions: of `answers`, for parts with versions.
    changes: the number of changed answers since the creation.
    drawn: the answers of the drawn parts by name, possibly older; None before the first read.
    drawn_at: `changes` at the request of `drawn`.
    unpublished: whether an answer has changed since the last profile.
    publishing, drawing: the tasks that publish the profile, and that read the drawn parts.
    """

    user: str
    names: frozenset[str]
    latest: LatestEvent = field(default_factory=LatestEvent)
    clients: int = 0
    answers: dict[str, bytes | None] = field(default_factory=dict)
    places: dict[str, Positions] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    changes: int = 0
    drawn: dict[str, bytes] | None = None
    drawn_at: int = 0
    unpublished: bool = False
    publishing: asyncio.Task[None] | None = None
    drawing: asyncio.Task[None] | None = None

    def replace(self, part: str, place: Positions, answer: dict[str, Any] | None) -> bool:
        """Keep the answer of a keyed part, read at the positions `place`; returns whether the answer has changed."""
        encoded = None if answer is None else msgspec.json.encode(answer)
        changed = part not in self.answers or self.answers[part] != encoded
        self.places[part], self.answers[part] = place, encoded
        self.changes += changed
        return changed

    @property
    def query(self) -> Query:
        """The query of a single read of the profile."""
        return [EXPLAINED, *((PARTS, name) for name in self.names)]

    @property
    def position(self) -> str:
        """The positions of the keyed parts, and the number of changes since the request of the drawn parts.

        Profiles at the same position are equal.
        """
        behind = self.changes - self.drawn_at if self.drawn else 0
        return "; ".join([*map(offsets_text, self.places.values()), *([f"{behind} behind"] if behind else [])])


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

    async def find(self, user: str, query: Query, deadline: Deadline) -> Watched:
        """The user with the parts of `query`; `watching` makes the profile.

        Raises a `Problem` for an unknown part, or when the first part cannot be read.
        """
        names = frozenset(part_names(query))
        if known := self._watched.get((user, names)):
            return known
        watched = Watched(user, names)
        first, *others = self._keyed(names)
        reads = (self._update(part, [watched]) for part in others)
        await asyncio.gather(self._read(first, [watched], deadline), *reads)
        return watched

    @contextmanager
    def watching(self, found: Watched) -> Iterator[LatestEvent]:
        """The profile of `found`, a result of `find`, kept current in the body."""
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
        by_part: defaultdict[str, list[Watched]] = defaultdict(list)
        for names, group in by_names.items():
            for _, view, _ in self._keyed(names):
                by_part[view.name] += group
        services = {self._owners.parts[name][0].service for name in by_part}
        await asyncio.gather(*map(self._owners.read, services))
        parts = self._owners.parts
        await asyncio.gather(*(self._update_moved(parts[name], group, ends) for name, group in by_part.items()))

    async def _update_moved(self, part: LocatedPart, group: Sequence[Watched], ends: float) -> None:
        """Read a part for the users of moved partitions, until `ends` or longer."""
        late = moved(part, group)
        for first in range(0, len(late), AT_A_TIME):
            started = time.monotonic()
            await self._update(part, late[first : first + AT_A_TIME])
            now, left = time.monotonic(), len(late) - first
            # At least half of the time is left to other requests of owners and of this process.
            await asyncio.sleep(max(now - started, (ends - now) * min(1, AT_A_TIME / left)))

    async def _update(self, part: LocatedPart, group: Sequence[Watched]) -> None:
        """Read a part of a group, and publish changed profiles. After a failure, the next poll reads the part."""
        _, view, _ = part
        with suppress(StreamStateError):
            versions = await self._changed(part, group) if view.versioned else dict.fromkeys(group)
            if not versions:
                return
            for watched in await self._read(part, list(versions), self._deadline()):
                if watched.clients:
                    self._outdated[watched] = None
                    self._publish_soon(watched)
            for watched, version in versions.items():
                watched.versions[view.name] = version

    async def _changed(self, part: LocatedPart, group: Sequence[Watched]) -> dict[Watched, Any]:
        """The versions of outdated answers. Other answers of `group` get the present positions."""
        known, view, _ = part
        users = dict.fromkeys(watched.user for watched in group)
        deadline = self._deadline()
        versions, positions = await self._router.many_at([(view.name, user) for user in users], deadline, VERSIONS)
        places, changed = by_partition(positions), {}
        for watched in group:
            version = versions[view.name][watched.user]
            if watched.versions.get(view.name, UNREAD) == version:
                watched.places[view.name] = places.get(known.partition(view, watched.user), {})
            else:
                changed[watched] = version
        return changed

    def _deadline(self) -> Deadline:
        return Deadline(time.monotonic() + self._timeout_s)

    async def _read(self, part: LocatedPart, group: Sequence[Watched], deadline: Deadline) -> list[Watched]:
        """Read a part of `group`; returns the users with a changed answer. Raises a `Problem` without an answer."""
        known, view, _ = part
        users = dict.fromkeys(watched.user for watched in group)
        answers, positions = await self._router.many_at([(view.name, user) for user in users], deadline)
        places, changed = by_partition(positions), []
        for watched in group:
            place = places.get(known.partition(view, watched.user), {})
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
            parts = self._select(watched.names)
            first = parts[0][1].name
            if watched.drawn is None and watched.answers.get(first, b"") is not None:
                await self._draw(watched)
            watched.unpublished = False
            position, answers = watched.position, {**(watched.drawn or {}), **watched.answers}
            profile = None if answers[first] is None else await self._profile(watched, parts, answers)
            watched.latest.publish(ServerSentEvent(PROFILE, position, msgspec.json.encode(profile)))

    async def _draw(self, watched: Watched) -> None:
        """Read the drawn parts."""
        async with self._slots:
            self._outdated.pop(watched, None)
            changes, deadline = watched.changes, self._deadline()
            parts = [part for part in self._select(watched.names) if part[1].name not in watched.answers]
            reads = (self._users.part(part, watched.user, watched.query, deadline) for part in parts)
            encoded = map(msgspec.json.encode, await asyncio.gather(*reads))
            watched.drawn = {view.name: body for (_, view, _), body in zip(parts, encoded, strict=True)}
            watched.drawn_at = changes
        self._publish_soon(watched)

    async def _profile(
        self, watched: Watched, parts: Sequence[LocatedPart], answers: Mapping[str, bytes | None]
    ) -> dict[str, Any]:
        """The joined `answers` of `parts`, with names."""
        bodies = [members(part, msgspec.json.decode(answers.get(part[1].name) or b"null")) for part in parts]
        return await self._users.profile(bodies, parts, watched.query, self._deadline())

    def _keyed(self, names: Iterable[str]) -> Sequence[LocatedPart]:
        """The keyed parts called `names`, the first part first; without any, the first default part.

        So drawn parts alone are read again at changes of the first default part.
        """
        return [part for part in self._select(names) if not part[1].anywhere] or self._select(())[:1]

    def _select(self, names: Iterable[str]) -> Sequence[LocatedPart]:
        return self._users.requested([(PARTS, name) for name in names])


def moved(part: LocatedPart, group: Iterable[Watched]) -> Sequence[Watched]:
    """The users of `group` whose partition has moved since the read of the part, in the order of partitions."""
    known, view, _ = part
    places = by_partition(known.positions)
    located = [(known.partition(view, watched.user), watched) for watched in group]
    late = [place for place in located if place[1].places.get(view.name) != places.get(place[0], {})]
    return [watched for _, watched in sorted(late, key=itemgetter(0))]


def by_partition(positions: Positions) -> Mapping[int, Positions]:
    """`positions` by partition, without empty partitions."""
    places: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for place, offset in positions.items():
        if offset:
            places[place[1]][place] = offset
    return places
