"""Names for ids: asked in bulk, remembered for seconds."""

from collections.abc import Iterable

from cachetools import TTLCache

from services.gateway.router import Router
from streamstate.web.deadline import Deadline

Thing = tuple[str, int]
"""A kind (artists, albums, tracks) and an id."""


class Names:
    """The names of the names service. Safe for threads: two may ask for the same name, neither is harmed."""

    def __init__(self, router: Router, ttl_s: float, most: int) -> None:
        self._router = router
        self._known: TTLCache[Thing, str | None] = TTLCache(most, ttl_s)

    def find(self, things: Iterable[Thing], deadline: Deadline) -> dict[Thing, str | None]:
        """The names of `things`, None where there is none. Raises a `Problem` when they cannot be had in time."""
        found: dict[Thing, str | None] = {}
        unknown: list[Thing] = []
        for thing in things:
            try:
                found[thing] = self._known[thing]
            except KeyError:
                unknown.append(thing)
        if unknown:
            asked = [(kind, str(number)) for kind, number in unknown]
            answers = self._router.many("names", asked, deadline)
            for thing, (kind, text) in zip(unknown, asked, strict=True):
                answer = answers[kind, text]
                found[thing] = self._known[thing] = None if answer is None else answer["name"]
        return found
