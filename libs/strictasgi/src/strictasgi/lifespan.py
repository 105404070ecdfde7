"""The lifespan of an application (ASGI, lifespan protocol)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = Mapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
"""An ASGI 3 application: called with a scope, `receive` and `send`."""

ASGI = {"version": "3.0", "spec_version": "2.3"}
"""With version 2.3, `send` raises no error after the client has left."""

log = logging.getLogger("strictasgi")


class LifespanFailed(Exception):
    """The application sent `lifespan.startup.failed` or `lifespan.shutdown.failed`."""


class Lifespan:
    """Sends `application` the events of start and end. An application that raises an exception has no lifespan.

    state: the namespace for the application to fill at the start; each request gets a copy.
    """

    def __init__(self, application: Application) -> None:
        self.state: dict[str, Any] = {}
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": ASGI, "state": self.state}
        self._running: asyncio.Future[Any] = asyncio.ensure_future(application(scope, self._events.get, self._send))

    async def tell(self, step: str) -> None:
        """Send the event of `step` (startup or shutdown), and wait for its completion. Raises `LifespanFailed`."""
        if self._running.done():
            return
        self._completed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._events.put_nowait({"type": f"lifespan.{step}"})
        await asyncio.wait({self._running, self._completed}, return_when=asyncio.FIRST_COMPLETED)
        if not self._completed.done():
            log.warning("the application left its lifespan: %r", self._running.exception())
        elif self._completed.result()["type"].endswith(".failed"):
            raise LifespanFailed(self._completed.result().get("message", ""))

    async def _send(self, message: Message) -> None:
        self._completed.set_result(message)
