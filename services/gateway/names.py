"""Names for ids: asked in bulk, remembered for seconds."""

from collections.abc import Iterable

from cachetools import TTLCache

from services.gateway.router import Router
from streamstate.web.deadline import Deadline

Thing = tuple[str, int]
"""A kind (artists, albums, tracks) and an id."""


class _Expired:
    """What the cache holds no more, or never held: None is a name that there is not."""


_EXPIRED = _Expired()


class Names:
    """The names of the names service. For one event loop."""

    def __init__(self, router: Router, ttl_s: float, most: int) -> None:
        self._router = router
        self._known: TTLCache[Thing, str | None] = TTLCache(most, ttl_s)

    async def find(self, things: Iterable[Thing], deadline: Deadline) -> dict[Thing, str | None]:
        """The names of `things`, None where there is none. Raises a `Problem` when they cannot be had in time."""
        found: dict[Thing, str | None] = {}
        unknown: list[Thing] = []
        for thing in things:
            name = self._known.get(thing, _EXPIRED)
            if isinstance(name, _Expired):
                unknown.append(thing)
            else:
                found[thing] = name
        if unknown:
            answers = await self._router.many("names", [(kind, str(number)) for kind, number in unknown], deadline)
            fresh = {(kind, number): (answers[kind][str(number)] or {}).get("name") for kind, number in unknown}
            self._known.update(fresh)
            found |= fresh
        return found
