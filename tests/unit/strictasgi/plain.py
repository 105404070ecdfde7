"""Plain ASGI applications for the server under test."""

import asyncio
from typing import Any

from tests.waiting import pausing

BEGUN = "begun"
"""Printed when a request is there that is not answered at once."""


async def application(scope: Any, _receive: Any, send: Any) -> None:
    """`/slow` takes a second, `/never` has no end, any other path is answered at once. It has no lifespan."""
    assert scope["type"] == "http"
    if scope["path"] == "/slow":
        print(BEGUN, flush=True)
        await pausing(1)
    elif scope["path"] == "/never":
        print(BEGUN, flush=True)
        await asyncio.Event().wait()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def unstarted(_scope: Any, receive: Any, send: Any) -> None:
    """An application that cannot start."""
    assert (await receive())["type"] == "lifespan.startup"
    await send({"type": "lifespan.startup.failed", "message": "no database"})
