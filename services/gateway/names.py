"""Names for ids: where they go in an answer; asked in bulk, remembered until their table moves."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from services.gateway.owners import Owners, ServiceMap
from services.gateway.router import Router
from streamstate.state.store import TopicPartition
from streamstate.web.http.deadline import Deadline

Thing = tuple[str, int | str]
"""A view whose answer has a `name`, and a key of it."""

Names = Mapping[str, Mapping[int | str, str | None]]
"""Names by view and key, None for a thing without one."""


class NamedObjects(NamedTuple):
    """`objects` of an answer that have keys of `view` as their member `key`, and get names as their member `name`."""

    view: str
    key: str
    name: str
    objects: list[dict[str, Any]]


def name_of(id_member: str) -> str:
    """The member for the name: `name` beside `id`, `artistName` beside `artistId`."""
    return "name" if id_member == "id" else f"{id_member.removesuffix('Id')}Name"


def named(answer: dict[str, Any], views: Mapping[str, str]) -> list[NamedObjects]:
    """Where `answer` gets names. `views` are those of `NamedIds`."""
    places = []
    for path, view in views.items():
        *steps, member = path.split(".")
        objects = [answer]
        for step in steps:
            objects = [item for each in objects for item in each.get(step) or ()]
        objects = [each for each in objects if each.get(member) is not None]
        places.append(NamedObjects(view, member, name_of(member), objects))
    return places


def add(names: Names, places: Iterable[NamedObjects]) -> None:
    """Put what `names` has into `places`."""
    for view, key, name, objects in places:
        known = names.get(view, {})
        for each in objects:
            each[name] = known.get(each[key])


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
        self._valid: defaultdict[str, dict[int | str, str | None]] = defaultdict(dict)
        self._valid_for = owners.views

    async def get(self, places: Iterable[NamedObjects], deadline: Deadline) -> Names:
        """Names, those for `places` among them. Raises a `Problem` when they cannot be had in time."""
        if self._valid_for is not self._owners.views or sum(map(len, self._valid.values())) > self._most:
            self._valid, self._valid_for = defaultdict(dict), self._owners.views
        valid = self._valid
        missing: dict[Thing, None] = {}
        for view, key, _, objects in places:
            known = valid[view]
            missing |= {(view, each[key]): None for each in objects if each[key] not in known}
        if missing:
            maps = {view: self._owners.with_keys(view) for view, _ in missing}
            for thing in missing:
                cached = self._cached.get(thing)
                if cached and maps[thing[0]].positions.get(cached.place, 0) == cached.position:
                    valid[thing[0]][thing[1]] = cached.name
            if unknown := [(view, key) for view, key in missing if key not in valid[view]]:
                for thing, name in (await self._ask(maps, unknown, deadline)).items():
                    valid[thing[0]][thing[1]] = name
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
