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
"""Version 2.3: `send` raises nothing when the client has left."""

log = logging.getLogger("strictasgi")


class LifespanFailed(Exception):
    """The application sent `lifespan.startup.failed` or `lifespan.shutdown.failed`."""


class Lifespan:
    """Tells `application` of start and end. An application that raises an exception is served without a lifespan.

    `state` is the namespace that the application fills at the start; each request gets a copy.
    """

    def __init__(self, application: Application) -> None:
        self.state: dict[str, Any] = {}
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": ASGI, "state": self.state}
        self._running: asyncio.Future[Any] = asyncio.ensure_future(application(scope, self._events.get, self._send))

    async def tell(self, step: str) -> None:
        """Returns when the application has done `step`, startup or shutdown. Raises `LifespanFailed`."""
        if self._running.done():
            return
        self._told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._events.put_nowait({"type": f"lifespan.{step}"})
        await asyncio.wait({self._running, self._told}, return_when=asyncio.FIRST_COMPLETED)
        if not self._told.done():
            log.warning("the application left its lifespan: %r", self._running.exception())
        elif self._told.result()["type"].endswith(".failed"):
            raise LifespanFailed(self._told.result().get("message", ""))

    async def _send(self, message: Message) -> None:
        self._told.set_result(message)
