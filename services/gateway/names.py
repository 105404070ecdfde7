"""Names beside the ids of an answer: read in bulk, and cached until their table moves."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from services.gateway.routing.directory import Directory, ServiceMap
from services.gateway.routing.router import Router
from streamstate.state.store import TopicPartition
from streamstate.web.http.deadline import Deadline

ItemKey = tuple[str, int | str]
"""A view whose answers have a `name`, and a key of the view."""

Names = Mapping[str, Mapping[int | str, str | None]]
"""Names by view and key, None for a key without a name."""


class NamedObjects(NamedTuple):
    """`objects` of an answer with a key of `view` in the member `key`, and the place of a name in the member `name`."""

    view: str
    key: str
    name: str
    objects: list[dict[str, Any]]


def name_of(id_member: str) -> str:
    """The member for the name: `name` beside `id`, `artistName` beside `artistId`."""
    return "name" if id_member == "id" else f"{id_member.removesuffix('Id')}Name"


def named(answer: dict[str, Any], views: Mapping[str, str]) -> list[NamedObjects]:
    """The places for names in `answer`; `views` as in `NamedIds`."""
    places = []
    for path, view in views.items():
        *steps, member = path.split(".")
        objects = [answer]
        for step in steps:
            objects = [item for parent in objects for item in parent.get(step) or ()]
        objects = [item for item in objects if item.get(member) is not None]
        places.append(NamedObjects(view, member, name_of(member), objects))
    return places


def add(names: Names, places: Iterable[NamedObjects]) -> None:
    for view, key, name, objects in places:
        known = names.get(view, {})
        for item in objects:
            item[name] = known.get(item[key])


class _Cached(msgspec.Struct, frozen=True, gc=False):
    """A name (None: no name), and the offset of its table's partition in a release before the read.

    `gc=False`: with 200,000 names, the garbage collector would stop all requests for 0.1 s.
    """

    name: str | None
    deployment: str
    place: TopicPartition
    position: int

    def valid_in(self, known: ServiceMap) -> bool:
        return known.deployment == self.deployment and known.positions.get(self.place, 0) == self.position


class NameCache:
    """The newest `most` names of services. For one event loop.

    A name is valid while the owner map has the same offset for the partition of its table.
    """

    def __init__(self, router: Router, most: int) -> None:
        self._router = router
        self._most = most
        self._cached: dict[ItemKey, _Cached] = {}
        self._valid: defaultdict[str, dict[int | str, str | None]] = defaultdict(dict)
        self._valid_for: Directory | None = None

    async def get(self, directory: Directory, places: Iterable[NamedObjects], deadline: Deadline) -> Names:
        """Names, including all names for `places`. Raises a `Problem` without an answer in time."""
        if self._valid_for is not directory or sum(map(len, self._valid.values())) > self._most:
            self._valid, self._valid_for = defaultdict(dict), directory
        valid = self._valid
        missing: dict[ItemKey, None] = {}
        for view, key, _, objects in places:
            known = valid[view]
            missing |= {(view, item[key]): None for item in objects if item[key] not in known}
        if missing:
            maps = directory.all_with_keys(dict.fromkeys(view for view, _ in missing))
            for view, item_key in missing:
                cached = self._cached.get((view, item_key))
                if cached and cached.valid_in(maps[view]):
                    valid[view][item_key] = cached.name
            if unknown := [(view, item_key) for view, item_key in missing if item_key not in valid[view]]:
                for (view, item_key), name in (await self._read(directory, maps, unknown, deadline)).items():
                    valid[view][item_key] = name
        return valid

    async def _read(
        self, directory: Directory, maps: Mapping[str, ServiceMap], keys: list[ItemKey], deadline: Deadline
    ) -> dict[ItemKey, str | None]:
        """Read names, and cache each with its position in the older `maps`: a name is never older than its position."""
        answers = await self._router.many(directory, [(view, str(key)) for view, key in keys], deadline)
        names: dict[ItemKey, str | None] = {}
        for view, key in keys:
            name = names[view, key] = (answers[view][str(key)] or {}).get("name")
            known, entry = maps[view], maps[view].views[view]
            place = entry.topic, known.partition(entry, str(key))
            self._cached[view, key] = _Cached(name, known.deployment, place, known.positions.get(place, 0))
        while len(self._cached) > self._most:
            del self._cached[next(iter(self._cached))]
        return names
