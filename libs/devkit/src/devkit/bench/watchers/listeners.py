"""Clients of event streams, which note what they hear and when."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp

from services.events import LISTENING_EVENTS
from streamstate.web.freshness import offsets_of
from streamstate_client.protocol import Parser

T = TypeVar("T")

AT_A_TIME = 16
"""So many clients connect at once, and wait for their first event."""

OPENED_S = 120


@dataclass
class Heard:
    """What the client of one user has heard: when, where the partition was then, and the last profile.

    events: moments (`time.monotonic`), and the next offset of the user's partition. ended: whether the stream has.
    """

    events: list[tuple[float, int]] = field(default_factory=list)
    last: str = ""
    ended: bool = False


@dataclass
class Listeners:
    """The clients by user, and the CPU seconds that all of them took so far."""

    by_user: Mapping[int, Heard]
    cpu_s: float = 0.0


@contextmanager
def listening(url: str, users: Sequence[int]) -> Iterator[Listeners]:
    """A client for each of `users`, in a thread for all; each of them has its first event when the body begins."""
    listeners = Listeners({user: Heard() for user in users})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(awaited: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(awaited, loop).result(OPENED_S)

    try:
        session = run(_session())
        tasks = run(_open(session, url, listeners))
        yield listeners
        run(_close(session, tasks))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _session() -> aiohttp.ClientSession:
    # None of the many may wait for a connection of another.
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))


async def _open(session: aiohttp.ClientSession, url: str, listeners: Listeners) -> list[asyncio.Task[None]]:
    slots = asyncio.Semaphore(AT_A_TIME)
    told = [asyncio.Event() for _ in listeners.by_user]

    async def opened(user: int, heard: Heard, first: asyncio.Event) -> asyncio.Task[None]:
        async with slots:
            task = asyncio.create_task(_listen(session, f"{url}/v1/users/{user}/stream", heard, first))
            await first.wait()
            return task

    clients = zip(listeners.by_user.items(), told, strict=True)
    tasks = await asyncio.gather(*(opened(user, heard, first) for (user, heard), first in clients))
    return [*tasks, asyncio.create_task(_meter(listeners))]


async def _listen(session: aiohttp.ClientSession, url: str, heard: Heard, first: asyncio.Event) -> None:
    parser = Parser()
    async with session.get(url) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if event := parser.feed(line):
                places = offsets_of(event.id)
                position = max(
                    (offset for (topic, _), offset in places.items() if topic == LISTENING_EVENTS), default=0
                )
                heard.events.append((time.monotonic(), position))
                heard.last = event.data
                first.set()
    heard.ended = True


async def _meter(listeners: Listeners) -> None:
    """Keep count of the thread's CPU time: a client that has no core to spare measures itself."""
    started = time.thread_time()
    while True:
        listeners.cpu_s = time.thread_time() - started
        await asyncio.sleep(1)


async def _close(session: aiohttp.ClientSession, tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await session.close()
