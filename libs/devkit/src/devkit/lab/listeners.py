"""Clients of event streams, recording the time of each event."""

import asyncio
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp

from devkit import DevkitError
from services.events import LISTENING_EVENTS
from streamstate.state.store import offsets_of
from streamstate_client.protocol import Parser

AT_A_TIME = 16
"""The most clients between connecting and their first event."""

OPENED_S = 120


@dataclass
class Heard:
    """The events of a user's client.

    events: moments (`time.time`), each with the next offset of the user's partition. ended: whether the stream has
    ended unasked.
    """

    events: list[tuple[float, int]] = field(default_factory=list)
    ended: bool = False

    def after(self, offset: int) -> float:
        """The moment of the first event of a state with the record at `offset`; infinite without such an event."""
        return next((moment for moment, position in self.events if position > offset), math.inf)


@contextmanager
def listening(url: str, users: Sequence[int]) -> Iterator[Mapping[int, Heard]]:
    """A client for each of `users`, in a single thread; each client has its first event before the body begins.

    Raises `DevkitError` when a client has no event after two minutes.
    """
    heard = {user: Heard() for user in users}
    opened, closing = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(asyncio.run, _listen_to_all(url, heard, opened, closing))
        try:
            if not opened.wait(OPENED_S):
                msg = f"a watcher has no event after {OPENED_S} s; look at the log of the gateway"
                raise DevkitError(msg)
            yield heard
        finally:
            closing.set()
        running.result()


async def _listen_to_all(
    url: str, heard: Mapping[int, Heard], opened: threading.Event, closing: threading.Event
) -> None:
    slots, unlimited = asyncio.Semaphore(AT_A_TIME), aiohttp.ClientTimeout(total=None)
    # No client waits for a connection of another client.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=unlimited) as session:
        streams = [
            asyncio.create_task(_listen(session, f"{url}/v1/users/{user}/stream", client, slots))
            for user, client in heard.items()
        ]
        while not closing.is_set():
            if not opened.is_set() and all(client.events for client in heard.values()):
                opened.set()
            await asyncio.sleep(0.1)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


async def _listen(session: aiohttp.ClientSession, url: str, heard: Heard, slots: asyncio.Semaphore) -> None:
    parser = Parser()
    await slots.acquire()
    async with session.get(url) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            if event := parser.feed(line):
                if not heard.events:
                    slots.release()
                places = offsets_of(event.id).items()
                position = max((offset for (topic, _), offset in places if topic == LISTENING_EVENTS), default=0)
                heard.events.append((time.time(), position))
    heard.ended = True
