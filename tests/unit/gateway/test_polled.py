"""Answers that streams read again: each caller has a share of the reads."""

import asyncio
from collections import defaultdict
from contextlib import ExitStack

import pytest

from services.gateway.streams.polled import MOST_EVENTS, PERIOD_S, PolledEvents
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import ServerSentEvent
from streamstate.web.http.problems import Problem
from tests.waiting import PATIENCE_S, now_s, pausing

REST = 9


def deadline() -> Deadline:
    return Deadline(now_s() + PATIENCE_S)


def test_slow_answers_of_one_caller_do_not_delay_the_answers_of_another() -> None:
    """Also when the other caller comes while the first one rests."""
    reads: defaultdict[str, int] = defaultdict(int)

    async def watch() -> None:
        quick_read_twice = asyncio.Event()
        polled = PolledEvents(REST, 60)

        async def slow(_deadline: Deadline) -> ServerSentEvent:
            reads["slow"] += 1
            await pausing(0.2)
            return ServerSentEvent("count", "", b"1")

        async def quick(_deadline: Deadline) -> ServerSentEvent:
            reads["quick"] += 1
            if reads["quick"] == 4:
                quick_read_twice.set()
            return ServerSentEvent("count", "", b"1")

        with ExitStack() as streams:
            for number in range(MOST_EVENTS):
                streams.enter_context(await polled.begin(number, slow, deadline(), "hostile"))
            streams.enter_context(await polled.begin("quick", quick, deadline(), "other"))
            before = dict(reads)
            started = now_s()
            async with asyncio.timeout(PATIENCE_S):
                await quick_read_twice.wait()
            periods = (now_s() - started) / PERIOD_S
            # A slow read, and nine times its duration as a pause: the hostile caller has at most a read in two seconds.
            assert reads["slow"] - before["slow"] <= 1 + periods

    asyncio.run(watch())
    assert reads["quick"] == 4


def test_a_caller_watches_so_many_answers_at_most() -> None:
    async def watch() -> None:
        polled = PolledEvents(REST, 60)

        async def read(_deadline: Deadline) -> ServerSentEvent:
            return ServerSentEvent("count", "", b"1")

        with ExitStack() as streams:
            for number in range(MOST_EVENTS):
                for _ in range(3):
                    streams.enter_context(await polled.begin(number, read, deadline(), "one"))
            with pytest.raises(Problem, match="as many as may be") as refused:
                await polled.begin("further", read, deadline(), "one")
            assert refused.value.status == 429
            streams.enter_context(await polled.begin("further", read, deadline(), "other"))
        with await polled.begin("further", read, deadline(), "one") as latest:
            assert latest.event is not None

    asyncio.run(watch())
