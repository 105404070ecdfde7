"""Server-sent events: the received events of a series, for slow clients and any start."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from streamstate.web.http.events import LatestEvent, ServerSentEvent, Streams, chunks
from streamstate.web.http.problems import Problem

LONG_S = 60.0


def event(number: int) -> ServerSentEvent:
    return ServerSentEvent("count", f"at={number}", str(number).encode())


async def begun(latest: LatestEvent, last_id: str = "", heartbeat_s: float = LONG_S) -> AsyncIterator[bytes]:
    """The chunks for a client, after the first chunk, which is no event."""
    stream = chunks(latest, last_id, heartbeat_s)
    assert await anext(stream) == b"retry: 1000\n\n"
    return stream


def published(*numbers: int) -> LatestEvent:
    latest = LatestEvent()
    for number in numbers:
        latest.publish(event(number))
    return latest


async def _first_and_next() -> None:
    latest = published(1)
    stream = await begun(latest)
    assert await anext(stream) == event(1).encoded
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    latest.publish(event(2))
    assert await waiting == event(2).encoded


def test_the_newest_event_comes_at_once_and_each_newer_one_when_it_is_there() -> None:
    asyncio.run(_first_and_next())


def test_there_are_no_more_streams_than_may_be() -> None:
    streams = Streams(1, LONG_S)
    with streams.place(), pytest.raises(Problem, match="ask again") as refused, streams.place():
        pass
    assert refused.value.status == 503
    with streams.place():
        pass
