"""Server-sent events (WHATWG HTML, section 9.2): streaming answers, of the newest state or of each event of a log."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from streamstate.web.http.problems import RETRY_AFTER_S, Problem, encoded

CONTENT_TYPE = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"
"""The id of the last event that a client got before it connected again."""

HEADERS = {
    "Content-Type": CONTENT_TYPE,
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}
"""A proxy sends each event at once: RFC 9111, section 5.2.2.6, and the header of nginx and other proxies."""

RETRY_MS = 1_000
"""Milliseconds after which clients connect again."""

HEARTBEAT = b": heartbeat\n\n"
PROBLEM = "problem"
"""The type of the last event of a stream that the server ends with a reason."""

_BEGIN = f"retry: {RETRY_MS}\n\n".encode()


class ServerSentEvent(NamedTuple):
    """One event: its type, its id (empty: none), and its data, a line of JSON."""

    name: str
    id: str
    data: bytes

    @property
    def encoded(self) -> bytes:
        place = f"id: {self.id}\n" if self.id else ""
        return f"event: {self.name}\n{place}data: ".encode() + self.data + b"\n\n"


class Series(Protocol):
    """The events of one stream."""

    async def after(self, seen: ServerSentEvent | None) -> ServerSentEvent:
        """The event to send after `seen`, the last sent event, once there is one. Raises a `Problem` at the end."""
        ...


class LatestEvent:
    """The newest event of a series. Slow readers skip events. For one event loop."""

    def __init__(self) -> None:
        self.event: ServerSentEvent | None = None
        self._problem: Problem | None = None
        self._changed = asyncio.Event()

    def publish(self, event: ServerSentEvent) -> None:
        """Replace the event, unless it equals the previous event."""
        if self.event is None or event.data != self.event.data:
            self.event = event
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def end(self, problem: Problem) -> None:
        """No event follows, because of `problem`."""
        self._problem = problem
        self._changed.set()

    async def after(self, seen: ServerSentEvent | None) -> ServerSentEvent:
        """The newest event, once it differs from `seen`. Raises the `Problem` of the end."""
        while self.event is None or self.event is seen:
            if self._problem:
                raise self._problem
            await self._changed.wait()
        return self.event


@dataclass(frozen=True)
class EventStream:
    """An answer that continues until the client leaves or the process ends; then `close` is called, once."""

    chunks: AsyncIterator[bytes]
    close: Callable[[], None]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: HEADERS)


class Streams:
    """The streams of this process: at most `most` are open, and each sends something every `heartbeat_s` seconds."""

    def __init__(self, most: int, heartbeat_s: float) -> None:
        self._most = most
        self._heartbeat_s = heartbeat_s
        self._open = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Reserves a place for one stream in the body. Raises a 503 `Problem` when all are taken."""
        if self._open >= self._most:
            raise too_many_streams(self._most)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def open(
        self, begin: Callable[[], Awaitable[AbstractContextManager[Series]]], headers: Mapping[str, str]
    ) -> EventStream:
        """The stream of the series that `begin` gives, for a request with these headers (names in lower case).

        Raises a 503 `Problem` when all places are taken, and as `begin`.
        """
        with ExitStack() as held:
            held.enter_context(self.place())
            series = held.enter_context(await begin())
            last_id = headers.get(LAST_EVENT_ID.lower(), "")
            return EventStream(chunks(series, last_id, self._heartbeat_s), held.pop_all().close)


async def chunks(series: Series, last_id: str, heartbeat_s: float) -> AsyncIterator[bytes]:
    """The chunks for one client: the events of `series`, and comments while there is none.

    last_id: the id of the client's last event, which is not sent again.
    """
    yield _BEGIN
    seen: ServerSentEvent | None = None
    while True:
        try:
            async with asyncio.timeout(heartbeat_s):
                event = await series.after(seen)
        except TimeoutError:
            yield HEARTBEAT
        except Problem as problem:
            yield ServerSentEvent(PROBLEM, "", encoded(problem)).encoded
            return
        else:
            known = seen is None and event.id and event.id == last_id
            seen = event
            if not known:
                yield event.encoded


def too_many_streams(most: int) -> Problem:
    detail = f"{most} streams are open, as many as may be; ask again in {RETRY_AFTER_S} s"
    return Problem(503, "too-many-streams", detail)
