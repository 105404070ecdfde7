"""A client of an event stream that an application under test answers with."""

import asyncio
import json
import queue
from dataclasses import dataclass
from typing import Any

from streamstate.web.server.asgi import Asgi
from tests.serving import Loop
from tests.waiting import PATIENCE_S, QUIET_S


@dataclass(frozen=True)
class Heard:
    """An event as the client got it."""

    name: str
    id: str
    data: Any


def parse(text: str) -> Heard | None:
    """One block of a stream, None for a comment, or a time to wait."""
    fields = dict(line.split(": ", 1) for line in text.splitlines() if line and line[0] != ":")
    return Heard(fields["event"], fields.get("id", ""), json.loads(fields["data"])) if "data" in fields else None


class Listener:
    """Listens to `path` (with its query) from now on, with an API key or token as its credential if one is given.

    While it is `busy`, it takes nothing that is sent.
    """

    def __init__(self, loop: Loop, app: Asgi, path: str, last_id: str = "", credential: str = "") -> None:
        self.blocks: list[str] = []
        self.headers: dict[str, str] = {}
        self.status = 0
        self._loop = loop
        self._app = app
        self._heard: queue.Queue[Heard] = queue.Queue()
        self._free, self._left = asyncio.Event(), asyncio.Event()
        self._free.set()
        path, _, query = path.partition("?")
        given = (b"last-event-id", last_id), (b"authorization", credential and f"Bearer {credential}")
        self._scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name, text.encode()) for name, text in given if text],
        }
        self._task = loop.run(self._begin())

    def next(self) -> Heard:
        """The next event; fails when none comes."""
        return self._heard.get(timeout=PATIENCE_S)

    def quiet(self, seconds: float = QUIET_S) -> bool:
        """Whether no event comes for so long."""
        try:
            self._heard.get(timeout=seconds)
        except queue.Empty:
            return True
        return False

    @property
    def ended(self) -> bool:
        """Whether the application has ended the stream."""
        return self.blocks[-1:] == [""]

    def busy(self) -> None:
        self._loop.run(self._set(self._free, value=False))

    def free(self) -> None:
        self._loop.run(self._set(self._free, value=True))

    def leave(self) -> None:
        """End the connection; returns when the application has let go of it."""
        self._loop.run(self._set(self._left, value=True))
        self._loop.run(self._ended())

    async def _begin(self) -> asyncio.Task[None]:
        return asyncio.create_task(self._app(self._scope, self._receive, self._send))

    async def _ended(self) -> None:
        await self._task

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): text.decode() for name, text in message["headers"]}
            return
        text = message["body"].decode()
        self.blocks.append(text)
        if self.status == 200 and (heard := parse(text)):
            self._heard.put(heard)
        await self._free.wait()

    @staticmethod
    async def _set(event: asyncio.Event, *, value: bool) -> None:
        (event.set if value else event.clear)()
