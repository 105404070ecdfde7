"""Events that are read again periodically while clients watch, such as the size of a segment, at a bounded cost."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from streamstate.errors import StreamStateError
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import LatestEvent, ServerSentEvent
from streamstate.web.http.problems import is_final

PERIOD_S = 1.0
"""The least seconds between two reads of an event."""

LONGEST_REST_S = 10.0
"""The longest pause, after a slow read."""

Read = Callable[[Deadline], Awaitable[ServerSentEvent]]


@dataclass
class _Polled:
    read: Read
    latest: LatestEvent = field(default_factory=LatestEvent)
    clients: int = 0
    read_at: float = -math.inf


class PolledEvents:
    """The events that clients watch, by name, one read at a time. For one event loop.

    rest: the pause after a read, in durations of the read. timeout_s: of a read.
    """

    def __init__(self, rest: float, timeout_s: float) -> None:
        self._rest = rest
        self._timeout_s = timeout_s
        self._polled: dict[Hashable, _Polled] = {}
        self._polling: asyncio.Task[None] | None = None

    async def begin(self, name: Hashable, read: Read, deadline: Deadline) -> AbstractContextManager[LatestEvent]:
        """As `watching`, from a first event on. Raises as `read` does."""
        return self.watching(name, read, await read(deadline))

    @contextmanager
    def watching(self, name: Hashable, read: Read, first: ServerSentEvent | None = None) -> Iterator[LatestEvent]:
        """The event of `read`, kept current in the body; `first` was read just now."""
        polled = self._polled.setdefault(name, _Polled(read))
        if first and polled.latest.event is None:
            polled.latest.publish(first)
            polled.read_at = time.monotonic()
        polled.clients += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._keep_polling())
        try:
            yield polled.latest
        finally:
            polled.clients -= 1
            if not polled.clients:
                self._forget(name, polled)

    async def _keep_polling(self) -> None:
        while self._polled:
            name, polled = min(self._polled.items(), key=lambda item: item[1].read_at)
            await asyncio.sleep(polled.read_at + PERIOD_S - time.monotonic())
            started = polled.read_at = time.monotonic()
            try:
                polled.latest.publish(await polled.read(Deadline(started + self._timeout_s)))
            except StreamStateError as error:
                if is_final(error):
                    self._forget(name, polled)
                    polled.latest.end(error)
            await asyncio.sleep(min(LONGEST_REST_S, self._rest * (time.monotonic() - started)))

    def _forget(self, name: Hashable, polled: _Polled) -> None:
        if self._polled.get(name) is polled:
            del self._polled[name]
