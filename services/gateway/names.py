"""Names for ids: where they go in an answer; asked in bulk, remembered until their table moves."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from services.gateway.owners import Owners, ServiceMap
from services.gateway.router import Router
from streamstate.state.store import TopicPartition
from streamstate.web.http.deadline import Deadline

Thing = tuple[str, int | str]
"""A view whose answer has a `name`, and a key of it."""

Names = Mapping[Thing, str | None]
"""The names of things, None for a thing without one."""


def name_of(id_member: str) -> str:
    """The member for the name: `name` beside `id`, `artistName` beside `artistId`."""
    return "name" if id_member == "id" else f"{id_member.removesuffix('Id')}Name"


def named(answer: dict[str, Any], views: Mapping[str, str]) -> list[tuple[dict[str, Any], str, Thing]]:
    """Each object in `answer` that gets a name, the member for it, and the thing. `views` are those of `NamedIds`."""
    places: list[tuple[dict[str, Any], str, Thing]] = []
    for place, view in views.items():
        *steps, member = place.split(".")
        objects = [answer]
        for step in steps:
            objects = [item for each in objects for item in each.get(step) or ()]
        name = name_of(member)
        places += [(each, name, (view, key)) for each in objects if (key := each.get(member)) is not None]
    return places


class _Cached(msgspec.Struct, frozen=True, gc=False):
    """A name (None: there is none), and the offset at which its table's partition stood before it was read.

    The garbage collector, which would stop all requests for 0.1 s where there are 200,000, need not look at them.
    """

    name: str | None
    place: TopicPartition
    position: int


class NameCache:
    """The names that services have, of which the newest `most` are remembered. For one event loop.

    A name is valid for as long as the owner map shows its partition of the table at the same offset, so a change is
    seen with the next map.
    """

    def __init__(self, owners: Owners, router: Router, most: int) -> None:
        self._owners = owners
        self._router = router
        self._most = most
        self._cached: dict[Thing, _Cached] = {}
        self._valid: dict[Thing, str | None] = {}
        self._valid_for = owners.views

    async def get(self, things: Iterable[Thing], deadline: Deadline) -> Names:
        """Names, those of `things` among them. Raises a `Problem` when they cannot be had in time."""
        if self._valid_for is not self._owners.views or len(self._valid) > self._most:
            self._valid, self._valid_for = {}, self._owners.views
        valid = self._valid
        if missing := [thing for thing in things if thing not in valid]:
            maps = {view: self._owners.with_keys(view) for view, _ in missing}
            for thing in missing:
                cached = self._cached.get(thing)
                if cached and maps[thing[0]].positions.get(cached.place, 0) == cached.position:
                    valid[thing] = cached.name
            if unknown := [thing for thing in missing if thing not in valid]:
                valid |= await self._ask(maps, unknown, deadline)
        return valid

    async def _ask(
        self, maps: Mapping[str, ServiceMap], things: list[Thing], deadline: Deadline
    ) -> dict[Thing, str | None]:
        """`maps` are older than the answers, so a name is at least as new as the position that is kept with it."""
        answers = await self._router.many([(view, str(key)) for view, key in things], deadline)
        names: dict[Thing, str | None] = {}
        for view, key in things:
            name = names[view, key] = (answers[view][str(key)] or {}).get("name")
            known, entry = maps[view], maps[view].views[view]
            place = entry.topic, known.partition(entry, str(key))
            self._cached[view, key] = _Cached(name, place, known.positions.get(place, 0))
        while len(self._cached) > self._most:
            del self._cached[next(iter(self._cached))]
        return names
