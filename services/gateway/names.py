"""Names for ids: asked in bulk, remembered for seconds."""

import threading
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
    """The names of the names service. Safe for threads."""

    def __init__(self, router: Router, ttl_s: float, most: int) -> None:
        self._router = router
        self._known: TTLCache[Thing, str | None] = TTLCache(most, ttl_s)
        self._lock = threading.Lock()

    def find(self, things: Iterable[Thing], deadline: Deadline) -> dict[Thing, str | None]:
        """The names of `things`, None where there is none. Raises a `Problem` when they cannot be had in time."""
        with self._lock:
            known = {thing: self._known.get(thing, _EXPIRED) for thing in things}
        found = {thing: name for thing, name in known.items() if not isinstance(name, _Expired)}
        unknown = [thing for thing in known if thing not in found]
        if unknown:
            asked = [(kind, str(number)) for kind, number in unknown]
            answers = self._router.many("names", asked, deadline)
            fresh = {thing: (answers[pair] or {}).get("name") for thing, pair in zip(unknown, asked, strict=True)}
            with self._lock:
                self._known.update(fresh)
            found |= fresh
        return found
