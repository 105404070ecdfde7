"""Users who are watched: their profiles are read again when the state of their partitions has moved."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from services.gateway.owners import LocatedPart, Owners
from services.gateway.router import Router
from services.gateway.users import PARTS, Users, part_names
from streamstate.errors import StreamStateError
from streamstate.state.store import TopicPartition
from streamstate.web.client.instances import Query
from streamstate.web.freshness import Positions, offsets_text
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import Event, Latest

PROFILE = "profile"
"""The type of the events."""

EXPLAINED = ("explain", "true")

AT_A_TIME = 50
"""So many users are read in one call: an owner answers others in between."""

MOST_COMPLETING = 16
"""So many profiles are completed at the same time."""


@dataclass(eq=False)
class Watched:
    """A user, and the names of the parts (none: the default ones) that some clients watch; `latest` is the profile.

    answers: by the name of each part that is answered by key, None where it knows nothing of the user.
    places: where the user's partition was when each of these was read.
    """

    user: str
    names: frozenset[str]
    latest: Latest = field(default_factory=Latest)
    clients: int = 0
    answers: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    places: dict[str, Positions] = field(default_factory=dict)
    incomplete: bool = False
    completing: asyncio.Task[None] | None = None

    def replace(self, part: str, place: Positions, answer: dict[str, Any] | None) -> bool:
        """Keep the answer of a part, read when the partition was at `place`; returns whether it has changed."""
        changed = part not in self.answers or self.answers[part] != answer
        self.places[part], self.answers[part] = place, answer
        return changed

    @property
    def query(self) -> Query:
        """What asks for the same profile once."""
        return [EXPLAINED, *((PARTS, name) for name in self.names)]

    @property
    def position(self) -> str:
        """Where the partition was, part by part: the answers at the same position are the same."""
        return "; ".join(map(offsets_text, self.places.values()))


class Watch:
    """Looks at the positions of the partitions for all clients together, for as long as there are any.

    Only users whose partition has moved are read, and only those whose answer has changed are told of.
    pause_s: least seconds between two looks; after one that took longer, as long as it took. longest_s: of a look.
    For one event loop.
    """

    def __init__(self, owners: Owners, router: Router, users: Users, pause_s: float, longest_s: float) -> None:
        self._owners = owners
        self._router = router
        self._users = users
        self._pause_s = pause_s
        self._longest_s = longest_s
        self._watched: dict[tuple[str, frozenset[str]], Watched] = {}
        self._slots = asyncio.Semaphore(MOST_COMPLETING)
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
    def watching(self, found: Watched) -> Iterator[Latest]:
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

    async def _keep_looking(self) -> None:
        while self._watched:
            started = time.monotonic()
            await self._look()
            await asyncio.sleep(max(self._pause_s, time.monotonic() - started))

    async def _look(self) -> None:
        by_names: defaultdict[frozenset[str], list[Watched]] = defaultdict(list)
        for watched in self._watched.values():
            by_names[watched.names].append(watched)
        by_part: defaultdict[str, list[Watched]] = defaultdict(list)
        for names, group in by_names.items():
            for _, view, _ in self._keyed(names):
                by_part[view.name] += group
        services = {self._owners.parts[name][0].service for name in by_part}
        await asyncio.gather(*map(self._owners.read, services))
        await asyncio.gather(*(self._renew(self._owners.parts[name], group) for name, group in by_part.items()))

    async def _renew(self, part: LocatedPart, group: Sequence[Watched]) -> None:
        """Read again those whose partition has moved; who cannot be read now is read at the next look."""
        known, view, _ = part
        places = by_partition(known.positions)
        moved = [one for one in group if one.places.get(view.name) != places.get(known.partition(view, one.user), {})]
        with suppress(StreamStateError):
            for first in range(0, len(moved), AT_A_TIME):
                deadline = Deadline(time.monotonic() + self._longest_s)
                for changed in await self._read(part, moved[first : first + AT_A_TIME], deadline):
                    self._complete_soon(changed)

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
        """Add what any instance answers, and names, until nothing has changed meanwhile."""
        while watched.incomplete:
            async with self._slots:
                watched.incomplete = False
                position, answers = watched.position, dict(watched.answers)
                deadline = Deadline(time.monotonic() + self._longest_s)
                lead = self._chosen(watched.names)[0][1].name
                profile: dict[str, Any] | None = None
                if answers.get(lead, {}) is not None:
                    profile = await self._users.profile(watched.user, answers, watched.query, deadline)
                watched.latest.publish(Event(PROFILE, position, msgspec.json.encode(profile)))

    def _keyed(self, names: Iterable[str]) -> Sequence[LocatedPart]:
        """Those of the parts with these names that are answered by key, the one that leads first.

        Where there is none of them, the parts that are there by default: what any instance answers changes with them.
        """
        return [part for part in self._chosen(names) if not part[1].anywhere] or self._keyed(())

    def _chosen(self, names: Iterable[str]) -> Sequence[LocatedPart]:
        return self._users.chosen([(PARTS, name) for name in names])


def by_partition(positions: Positions) -> Mapping[int, Positions]:
    """The same, partition by partition, without those where nothing is stored."""
    places: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
    for place, offset in positions.items():
        if offset:
            places[place[1]][place] = offset
    return places
