"""Users who are watched: their profiles are read again when the state of their partitions has moved."""

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
"""So many users are read in one call: an owner answers others in between."""

LEAST_PAUSE_S = 0.01
"""Between two looks."""

UNREAD = object()
"""The version of an answer that was not read."""

MOST_ASKING = 16
"""Of so many users at the same time is read what any instance answers."""

MOST_PER_S = 10
"""So often, in all, what any instance answers is read again: it may cost ten times as much as what an owner answers."""


@dataclass(eq=False)
class Watched:
    """A user, and the names of the parts (none: the default ones) that some clients watch; `latest` is the profile.

    answers: by the name of each part that is answered by key, None where it knows nothing of the user; in JSON, as
        a thousand of them would otherwise be hundreds of thousands of objects for the garbage collector.
    places: where the user's partition was when each of these was read.
    versions: of these answers, of parts whose answers have versions.
    changes: how often an answer has changed since the user is watched.
    others: the answers of the other parts, in JSON too, which may be older; None before the first ones.
    others_of: how many changes there were when these were asked for.
    completing, asking: what makes the profile, and what reads the others again.
    """

    user: str
    names: frozenset[str]
    latest: LatestEvent = field(default_factory=LatestEvent)
    clients: int = 0
    answers: dict[str, bytes | None] = field(default_factory=dict)
    places: dict[str, Positions] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    changes: int = 0
    others: dict[str, bytes] | None = None
    others_of: int = 0
    incomplete: bool = False
    completing: asyncio.Task[None] | None = None
    asking: asyncio.Task[None] | None = None

    def replace(self, part: str, place: Positions, answer: dict[str, Any] | None) -> bool:
        """Keep the answer of a part, read when the partition was at `place`; returns whether it has changed."""
        encoded = None if answer is None else msgspec.json.encode(answer)
        changed = part not in self.answers or self.answers[part] != encoded
        self.places[part], self.answers[part] = place, encoded
        self.changes += changed
        return changed

    @property
    def query(self) -> Query:
        """What asks for the same profile once."""
        return [EXPLAINED, *((PARTS, name) for name in self.names)]

    @property
    def position(self) -> str:
        """Where the partition was, part by part, and how many changes the others are behind.

        Profiles at the same position are the same.
        """
        behind = self.changes - self.others_of if self.others else 0
        return "; ".join([*map(offsets_text, self.places.values()), *([f"{behind} behind"] if behind else [])])


class Watch:
    """Looks at the positions of the partitions for all clients together, for as long as there are any.

    Only users whose partition has moved are read, and only those whose answer has changed are told of. What any
    instance answers is read again then, as soon as `MOST_PER_S` allows, and told when it has come.
    look_s: least seconds that a look takes, over which its calls are spread. longest_s: of a call.
    For one event loop.
    """

    def __init__(self, owners: Owners, router: Router, users: Users, look_s: float, longest_s: float) -> None:
        self._owners = owners
        self._router = router
        self._users = users
        self._look_s = look_s
        self._longest_s = longest_s
        self._watched: dict[tuple[str, frozenset[str]], Watched] = {}
        self._slots = asyncio.Semaphore(MOST_ASKING)
        self._budget = OwnBuckets()
        self._outdated: dict[Watched, None] = {}
        self._looking: asyncio.Task[None] | None = None

    async def find(self, user: str, query: Query, deadline: Deadline) -> Watched:
        """The user with the parts that `query` names; `watching` makes its profile.

        Raises a `Problem` when there is no such part, or the one that leads cannot be read.
        """
        names = frozenset(part_names(query))
        if found := self._watched.get((user, names)):
            return found
        watched = Watched(user, names)
        lead, *others = self._keyed(names)
        await asyncio.gather(self._read(lead, [watched], deadline), *(self._renew(part, [watched]) for part in others))
        return watched

    @contextmanager
    def watching(self, found: Watched) -> Iterator[LatestEvent]:
        """The profile of what was found, which is kept up in the body."""
        watched = self._watched.setdefault((found.user, found.names), found)
        watched.clients += 1
        if watched.clients == 1:
            self._complete_soon(watched)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._keep_looking())
        try:
            yield watched.latest
        finally:
            watched.clients -= 1
            if not watched.clients:
                del self._watched[watched.user, watched.names]
                self._outdated.pop(watched, None)

    async def _keep_looking(self) -> None:
        while self._watched:
            ends = time.monotonic() + self._look_s
            await self._look(ends)
            await self._ask_again()
            await asyncio.sleep(max(LEAST_PAUSE_S, ends - time.monotonic()))

    async def _ask_again(self) -> None:
        """Read the others of those that are outdated, of as many as may be now."""
        idle = [one for one in self._outdated if one.asking is None or one.asking.done()]
        for watched in idle:
            if not (await self._budget.lease(PARTS, MOST_PER_S, needed=1, wanted=1)).given:
                break
            watched.asking = asyncio.create_task(self._ask(watched))

    async def _look(self, ends: float) -> None:
        """Read again those whose partition has moved, spread until `ends`."""
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
        await asyncio.gather(*(self._catch_up(parts[name], group, ends) for name, group in by_part.items()))

    async def _catch_up(self, part: LocatedPart, group: Sequence[Watched], ends: float) -> None:
        """Read a part again for those whose partition has moved, until `ends` or longer."""
        late = moved(part, group)
        for first in range(0, len(late), AT_A_TIME):
            started = time.monotonic()
            await self._renew(part, late[first : first + AT_A_TIME])
            now, left = time.monotonic(), len(late) - first
            # In between, owners and this process answer others: at least half of the time.
            await asyncio.sleep(max(now - started, (ends - now) * min(1, AT_A_TIME / left)))

    async def _renew(self, part: LocatedPart, group: Sequence[Watched]) -> None:
        """Read a part again; who cannot be read now is read at the next look."""
        _, view, _ = part
        with suppress(StreamStateError):
            versions = await self._changed(part, group) if view.versioned else dict.fromkeys(group)
            if changed := list(versions):
                for other in await self._read(part, changed, self._deadline()):
                    if other.clients:
                        self._outdated[other] = None
                        self._complete_soon(other)
                for one in changed:
                    one.versions[view.name] = versions[one]

    async def _changed(self, part: LocatedPart, group: Sequence[Watched]) -> dict[Watched, Any]:
        """The versions of those whose answer was read at another one; the answer of the others stands where it did."""
        known, view, _ = part
        users = dict.fromkeys(one.user for one in group)
        deadline = self._deadline()
        versions, positions = await self._router.many_at([(view.name, user) for user in users], deadline, VERSIONS)
        places, changed = by_partition(positions), {}
        for one in group:
            version = versions[view.name][one.user]
            if one.versions.get(view.name, UNREAD) == version:
                one.places[view.name] = places.get(known.partition(view, one.user), {})
            else:
                changed[one] = version
        return changed

    def _deadline(self) -> Deadline:
        return Deadline(time.monotonic() + self._longest_s)

    async def _read(self, part: LocatedPart, group: Sequence[Watched], deadline: Deadline) -> list[Watched]:
        """Read a part of the profiles; returns those that have changed. Raises a `Problem` when it cannot be read."""
        known, view, _ = part
        users = dict.fromkeys(one.user for one in group)
        answers, positions = await self._router.many_at([(view.name, user) for user in users], deadline)
        places = by_partition(positions)
        return [
            one
            for one in group
            if one.replace(view.name, places.get(known.partition(view, one.user), {}), answers[view.name][one.user])
        ]

    def _complete_soon(self, watched: Watched) -> None:
        watched.incomplete = True
        if watched.clients and (watched.completing is None or watched.completing.done()):
            watched.completing = asyncio.create_task(self._complete(watched))

    async def _complete(self, watched: Watched) -> None:
        """Put the answers together, with names, until nothing has changed meanwhile."""
        while watched.incomplete:
            parts = self._chosen(watched.names)
            lead = parts[0][1].name
            if watched.others is None and watched.answers.get(lead, b"") is not None:
                await self._ask(watched)
            watched.incomplete = False
            position, held = watched.position, {**(watched.others or {}), **watched.answers}
            profile = None if held[lead] is None else await self._profile(watched, parts, held)
            watched.latest.publish(ServerSentEvent(PROFILE, position, msgspec.json.encode(profile)))

    async def _ask(self, watched: Watched) -> None:
        """Read what any instance answers."""
        async with self._slots:
            self._outdated.pop(watched, None)
            changes, deadline = watched.changes, self._deadline()
            others = [part for part in self._chosen(watched.names) if part[1].name not in watched.answers]
            asking = (self._users.part(part, watched.user, watched.query, deadline) for part in others)
            encoded = map(msgspec.json.encode, await asyncio.gather(*asking))
            watched.others = {view.name: body for (_, view, _), body in zip(others, encoded, strict=True)}
            watched.others_of = changes
        self._complete_soon(watched)

    async def _profile(
        self, watched: Watched, parts: Sequence[LocatedPart], held: Mapping[str, bytes | None]
    ) -> dict[str, Any]:
        """What the parts answer together, with names."""
        bodies = [members(part, msgspec.json.decode(held.get(part[1].name) or b"null")) for part in parts]
        return await self._users.profile(bodies, parts, watched.query, self._deadline())

    def _keyed(self, names: Iterable[str]) -> Sequence[LocatedPart]:
        """Those of the parts with these names that are answered by key, the one that leads first.

        Where there is none, the one that leads by default: what any instance answers is read again with it.
        """
        return [part for part in self._chosen(names) if not part[1].anywhere] or self._chosen(())[:1]

    def _chosen(self, names: Iterable[str]) -> Sequence[LocatedPart]:
        return self._users.chosen([(PARTS, name) for name in names])


def moved(part: LocatedPart, group: Iterable[Watched]) -> Sequence[Watched]:
    """Those whose partition has moved since the part was read, in the order of their partitions."""
    known, view, _ = part
    places = by_partition(known.positions)
    located = [(known.partition(view, one.user), one) for one in group]
    late = [(at, one) for at, one in located if one.places.get(view.name) != places.get(at, {})]
    return [one for _, one in sorted(late, key=itemgetter(0))]


def by_partition(positions: Positions) -> Mapping[int, Positions]:
    """The same, partition by partition, without those where nothing is stored."""
    places: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for place, offset in positions.items():
        if offset:
            places[place[1]][place] = offset
    return places
