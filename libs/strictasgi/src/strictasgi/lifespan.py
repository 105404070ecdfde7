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
    """Tells `application` of start and end. An application that raises at the start is served without a lifespan.

    `state` is the namespace that the application fills at the start; each request gets a copy.
    """

    def __init__(self, application: Application) -> None:
        self.state: dict[str, Any] = {}
        self._application = application
        self._events: asyncio.Queue[Message] = asyncio.Queue()

    async def start(self) -> None:
        """Returns when the application has started. Raises `LifespanFailed`."""
        self._running = asyncio.create_task(self._run())
        await self._tell("startup")

    async def stop(self) -> None:
        """Returns when the application has ended. Raises `LifespanFailed`."""
        await self._tell("shutdown")

    async def _tell(self, step: str) -> None:
        self._told: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._events.put_nowait({"type": f"lifespan.{step}"})
        either: list[asyncio.Future[Any]] = [self._running, self._told]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._told.done() and self._told.result()["type"].endswith(".failed"):
            raise LifespanFailed(self._told.result().get("message", ""))

    async def _run(self) -> None:
        try:
            await self._application(
                {"type": "lifespan", "asgi": ASGI, "state": self.state}, self._events.get, self._send
            )
        except Exception as error:  # noqa: BLE001, the protocol lets an application refuse it by any exception
            log.warning("the application has no lifespan: %r", error)

    async def _send(self, message: Message) -> None:
        if not self._told.done():
            self._told.set_result(message)
