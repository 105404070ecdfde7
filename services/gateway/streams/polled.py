"""Events that are read again periodically while clients watch, such as the size of a segment, at a bounded cost."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from streamstate.errors import StreamStateError
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import LatestEvent, ServerSentEvent
from streamstate.web.http.problems import Problem, is_final

PERIOD_S = 1.0
"""The least seconds between two reads of an event."""

LONGEST_REST_S = 10.0
"""The longest pause, after a slow read."""

MOST_EVENTS = 8
"""The most events that the streams of one caller watch."""

Read = Callable[[Deadline], Awaitable[ServerSentEvent]]


@dataclass
class _Polled:
    read: Read
    latest: LatestEvent = field(default_factory=LatestEvent)
    clients: Counter[str] = field(default_factory=Counter)
    """The open streams by caller."""
    read_at: float = -math.inf


class PolledEvents:
    """The events that clients watch, by name, one read at a time. For one event loop.

    Callers rest apart: slow events of one caller do not delay the events of another.

    rest: the pause of the callers of an event after a read, in durations of the read. timeout_s: of a read.
    """

    def __init__(self, rest: float, timeout_s: float) -> None:
        self._rest = rest
        self._timeout_s = timeout_s
        self._polled: dict[Hashable, _Polled] = {}
        self._rested_at: dict[str, float] = {}
        """By caller, the end of its pause."""
        self._joined = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None

    async def begin(
        self, name: Hashable, read: Read, deadline: Deadline, caller: str
    ) -> AbstractContextManager[LatestEvent]:
        """As `watching`, from a first event on. Raises as `read` does, and a 429 `Problem` for too many events."""
        others = sum(other != name and caller in polled.clients for other, polled in self._polled.items())
        if others >= MOST_EVENTS:
            detail = f"your streams watch {MOST_EVENTS} different answers, as many as may be; close one of them"
            raise Problem(429, "too-many-streams-of-caller", detail)
        return self.watching(name, read, await read(deadline), caller)

    @contextmanager
    def watching(
        self, name: Hashable, read: Read, first: ServerSentEvent | None = None, caller: str = ""
    ) -> Iterator[LatestEvent]:
        """The event of `read`, kept current in the body; `first` was read just now."""
        polled = self._polled.setdefault(name, _Polled(read))
        if first and polled.latest.event is None:
            polled.latest.publish(first)
            polled.read_at = time.monotonic()
        polled.clients[caller] += 1
        self._joined.set()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._keep_polling())
        try:
            yield polled.latest
        finally:
            polled.clients -= Counter([caller])
            if not polled.clients:
                self._forget(name, polled)

    async def _keep_polling(self) -> None:
        while self._polled:
            self._joined.clear()
            name, polled = min(self._polled.items(), key=lambda item: (self._due_at(item[1]), item[1].read_at))
            with suppress(TimeoutError):
                # A new event may be due earlier.
                await asyncio.wait_for(self._joined.wait(), max(0.0, self._due_at(polled) - time.monotonic()))
                continue
            started = polled.read_at = time.monotonic()
            try:
                polled.latest.publish(await polled.read(Deadline(started + self._timeout_s)))
            except StreamStateError as error:
                if is_final(error):
                    self._forget(name, polled)
                    polled.latest.end(error)
            ended = time.monotonic()
            rested_at = ended + min(LONGEST_REST_S, self._rest * (ended - started))
            resting = {caller: until for caller, until in self._rested_at.items() if until > ended}
            self._rested_at = resting | dict.fromkeys(polled.clients, rested_at)

    def _due_at(self, polled: _Polled) -> float:
        """The moment of the next read: as soon as one of its callers has rested."""
        rested_at = min((self._rested_at.get(caller, -math.inf) for caller in polled.clients), default=-math.inf)
        return max(polled.read_at + PERIOD_S, rested_at)

    def _forget(self, name: Hashable, polled: _Polled) -> None:
        if self._polled.get(name) is polled:
            del self._polled[name]
