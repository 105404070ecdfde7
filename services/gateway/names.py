"""Names for ids: asked in bulk, remembered until their table moves."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from services.gateway.owners import ServiceMap
from services.gateway.router import Router
from streamstate.web.http.deadline import Deadline

Thing = tuple[str, int]
"""A kind (artists, albums, tracks) and an id."""

Names = Mapping[Thing, str | None]
"""The names of things, None for a thing without one."""


class _Cached(NamedTuple):
    """A name (None: there is none), and the offset at which its table's partition stood before it was read."""

    name: str | None
    partition: int
    position: int


class NameCache:
    """The names of the names service, of which the newest `most` are remembered. For one event loop.

    A name is valid for as long as the owner map shows its partition of the table at the same offset, so a change is
    seen with the next map.
    """

    def __init__(self, router: Router, most: int) -> None:
        self._router = router
        self._most = most
        self._cached: dict[Thing, _Cached] = {}

    async def get(self, things: Iterable[Thing], deadline: Deadline) -> Names:
        """The names of `things`. Raises a `Problem` when they cannot be had in time."""
        tables = await self._router.map_of("names")
        names: dict[Thing, str | None] = {}
        missing: list[Thing] = []
        for thing in things:
            cached = self._cached.get(thing)
            if cached is None or tables.positions.get((thing[0], cached.partition), 0) != cached.position:
                missing.append(thing)
            else:
                names[thing] = cached.name
        if missing:
            names |= await self._ask(tables, missing, deadline)
        return names

    async def _ask(self, tables: ServiceMap, things: list[Thing], deadline: Deadline) -> dict[Thing, str | None]:
        """`tables` is older than the answers, so a name is at least as new as the position that is kept with it."""
        answers = await self._router.many("names", [(kind, str(number)) for kind, number in things], deadline)
        names: dict[Thing, str | None] = {}
        for kind, number in things:
            name = names[kind, number] = (answers[kind][str(number)] or {}).get("name")
            partition = tables.partition(tables.views[kind], str(number))
            self._cached[kind, number] = _Cached(name, partition, tables.positions.get((kind, partition), 0))
        while len(self._cached) > self._most:
            del self._cached[next(iter(self._cached))]
        return names
