"""Walks beside the event loop."""

import asyncio
import threading

from services.recommendations.pool import Pool
from services.recommendations.settings import PoolSettings
from streamstate.web.http.problems import Problem


def test_refusals_keep_no_frames_of_those_before() -> None:
    """An error that is raised again and again holds the frames of all times."""

    async def refusals() -> list[Problem]:
        pool, end = Pool(PoolSettings(walkers=1, walks_waiting=0)), threading.Event()
        walking = asyncio.create_task(pool.run(end.wait))
        await asyncio.sleep(0)
        refused = await asyncio.gather(*(pool.run(end.wait) for _ in range(2)), return_exceptions=True)
        end.set()
        await walking
        await pool.close()
        return [error for error in refused if isinstance(error, Problem)]

    first, second = asyncio.run(refusals())
    assert (first.status, first.kind) == (503, "overloaded")
    assert first is not second
