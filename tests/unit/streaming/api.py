"""Streams of a process of its own: `python -m streamstate.web tests.unit.streaming`."""

import asyncio
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from streamstate.deployment.connections import HttpSettings
from streamstate.settings import load
from streamstate.web.http.events import EventStream, LatestEvent, ServerSentEvent, Streams
from streamstate.web.http.request import Request
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.probes import application
from streamstate.web.server.responses import Answer
from tests.waiting import pausing

PLACES = 3
HEARTBEAT_S = 0.2
PERIOD_S = 0.005
EVENT_BYTES = 20_000


def create() -> Asgi:
    """`/v1/counted` streams a rising number, `/v1/still` a constant number."""
    counted, still, streams = LatestEvent(), LatestEvent(), Streams(PLACES, HEARTBEAT_S)
    still.publish(_event(0))

    async def ready() -> None:
        pass

    async def count() -> None:
        number = 0
        while True:
            counted.publish(_event(number := number + 1))
            await pausing(PERIOD_S)

    tasks: list[asyncio.Task[None]] = []

    async def start() -> None:
        tasks.append(asyncio.create_task(count()))

    async def answer(latest: LatestEvent, request: Request) -> EventStream:
        async def begin() -> AbstractContextManager[LatestEvent]:
            return nullcontext(latest)

        return await streams.open(begin, request.headers)

    routes, telemetry = application("streaming", "here", ready)
    for path, latest in (("/v1/counted", counted), ("/v1/still", still)):
        routes.add(path, path.rpartition("/")[2], partial(answer, latest), "Numbers", Answer(int, _event(1)))
    return Asgi(routes, load(HttpSettings), telemetry, starting=[start])


def _event(number: int) -> ServerSentEvent:
    return ServerSentEvent("number", str(number), f"{number}{' ' * EVENT_BYTES}".encode())
