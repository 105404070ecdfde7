"""Answers over all keys as streams, such as the size of a segment: read again periodically, at a bounded cost."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from services.gateway.owners import Owners
from services.gateway.router import Router
from streamstate.errors import StreamStateError
from streamstate.web.client.instances import Query
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import LatestEvent, ServerSentEvent
from streamstate.web.http.problems import is_final

PERIOD_S = 1.0
"""The least seconds between two reads of an answer."""

REST = 9
"""The pause after a read, in durations of the read: all reads take a tenth of the time of one instance."""

LONGEST_REST_S = 10.0
"""The longest pause, after a slow read."""


_Asked = tuple[str, tuple[tuple[str, str], ...]]
"""Path and query."""


@dataclass
class _Polled:
    latest: LatestEvent = field(default_factory=LatestEvent)
    clients: int = 0
    read_at: float = field(default_factory=time.monotonic)


class PolledAnswers:
    """The answers that clients watch, by path and query, one read at a time. timeout_s: of a read."""

    def __init__(self, owners: Owners, router: Router, timeout_s: float) -> None:
        self._owners = owners
        self._router = router
        self._timeout_s = timeout_s
        self._polled: dict[_Asked, _Polled] = {}
        self._polling: asyncio.Task[None] | None = None

    async def read(self, path: str, query: Query, deadline: Deadline) -> ServerSentEvent:
        """The answer of the view at `path`, called by the last segment. Raises a `Problem`."""
        body = await self._router.body(self._owners.now, path, query, deadline)
        return ServerSentEvent(path.rpartition("/")[2], "", body)

    @contextmanager
    def watching(self, path: str, query: Query, first: ServerSentEvent) -> Iterator[LatestEvent]:
        """The answer, kept current in the body; `first` is a result of `read`."""
        asked = path, tuple(query)
        polled = self._polled.setdefault(asked, _Polled())
        if polled.latest.event is None:
            polled.latest.publish(first)
        polled.clients += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._keep_polling())
        try:
            yield polled.latest
        finally:
            polled.clients -= 1
            if not polled.clients:
                self._forget(asked, polled)

    async def _keep_polling(self) -> None:
        while self._polled:
            asked, polled = min(self._polled.items(), key=lambda item: item[1].read_at)
            await asyncio.sleep(polled.read_at + PERIOD_S - time.monotonic())
            started = polled.read_at = time.monotonic()
            try:
                polled.latest.publish(await self.read(*asked, Deadline(started + self._timeout_s)))
            except StreamStateError as error:
                if is_final(error):
                    self._forget(asked, polled)
                    polled.latest.end(error)
            await asyncio.sleep(min(LONGEST_REST_S, REST * (time.monotonic() - started)))

    def _forget(self, asked: _Asked, polled: _Polled) -> None:
        if self._polled.get(asked) is polled:
            del self._polled[asked]
