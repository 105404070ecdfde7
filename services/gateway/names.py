"""Names for ids: asked in bulk, remembered until their table moves."""

from collections.abc import Iterable
from typing import NamedTuple

from services.gateway.owners import ServiceMap
from services.gateway.router import Router
from streamstate.web.http.deadline import Deadline

Thing = tuple[str, int]
"""A kind (artists, albums, tracks) and an id."""


class _Known(NamedTuple):
    """A name (None: there is none), and where its table's partition stood before it was read."""

    name: str | None
    partition: int
    position: int


class Names:
    """The names of the names service. For one event loop.

    A name that is known holds for as long as the owner map shows its partition of the table where it stood, so a change
    is seen as late as the next map.
    """

    def __init__(self, router: Router, most: int) -> None:
        self._router = router
        self._most = most
        self._known: dict[Thing, _Known] = {}

    async def find(self, things: Iterable[Thing], deadline: Deadline) -> dict[Thing, str | None]:
        """The names of `things`, None where there is none. Raises a `Problem` when they cannot be had in time."""
        tables = await self._router.map_of("names")
        found: dict[Thing, str | None] = {}
        unknown: list[Thing] = []
        for thing in things:
            known = self._known.get(thing)
            if known is None or tables.positions.get((thing[0], known.partition), 0) != known.position:
                unknown.append(thing)
            else:
                found[thing] = known.name
        if unknown:
            found |= await self._ask(tables, unknown, deadline)
        return found

    async def _ask(self, tables: ServiceMap, things: list[Thing], deadline: Deadline) -> dict[Thing, str | None]:
        """`tables` is older than the answers, so a name is at least as new as the position that is kept with it."""
        answers = await self._router.many("names", [(kind, str(number)) for kind, number in things], deadline)
        found: dict[Thing, str | None] = {}
        for kind, number in things:
            name = found[kind, number] = (answers[kind][str(number)] or {}).get("name")
            partition = tables.partition(tables.views[kind], str(number))
            self._known[kind, number] = _Known(name, partition, tables.positions.get((kind, partition), 0))
        while len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return found
