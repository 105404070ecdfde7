"""Plays as text and back, walks beside the event loop, and the memory of a graph."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkit.redis_server import Redis
from services.recommendations.api import Pool
from services.recommendations.packing import PlayBatch, pack, unpack
from services.recommendations.settings import PoolSettings
from streamstate.keys import LONG_MAX
from streamstate.web.http.problems import Problem

# Plays as text and back.

ids = st.integers(0, 300) | st.integers(0, LONG_MAX) | st.sampled_from([0, 255, 256, 2**32, LONG_MAX])
rows = st.lists(st.tuples(ids, ids, ids, ids), min_size=1, max_size=50)


@given(st.integers(-1, 2**62), rows)
def test_what_is_packed_is_unpacked(time: int, plays: list[tuple[int, int, int, int]]) -> None:
    found = unpack(pack(PlayBatch(time, np.array(plays, np.int64))).encode())
    assert found.time == time
    assert found.ids.tolist() == [list(play) for play in plays]


def test_a_play_takes_as_many_bytes_as_its_ids() -> None:
    plays = np.random.default_rng(1).integers(0, (50_000, 20_000, 100_000, 1_000_000), (10_000, 4))
    assert len(pack(PlayBatch(0, plays))) / len(plays) < 14


@pytest.mark.parametrize("spoil", [lambda t: t[:-4], lambda t: t[:8], lambda _: b"", lambda t: b"\xff" + t[1:]])
def test_a_text_that_was_cut_or_changed_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    text = pack(PlayBatch(5, np.array([[1, 2, 3, 4], [5, 6, 7, 80_000]], np.int64))).encode()
    with pytest.raises(ValueError, match=r"log entry|[Bb]ase64|[Pp]adding|[Ii]nvalid"):
        unpack(spoil(text))


# Walks beside the event loop.


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


# The memory of a process that holds a graph.

BUILDING = """
import sys
from random import Random
from threading import Thread

import psutil
import structlog

from services.events import LISTENING_EVENTS
from services.recommendations.live import Live, warm_up
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.store import DELETIONS, Commit, OffsetAdvance
from tests.unit.recommendations.following import driver, records

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
store, draw = RedisStore(connect(sys.argv[1], 10), "graph-memory"), Random(1).randrange
logs = records((draw(100_000), draw(60), draw(200), draw(900), 0) for _ in range(200_000))
folding = driver(store, 1_000_000)
for partition, log in logs.items():
    for start in range(0, len(log), 10_000):
        folding.feed(partition, {LISTENING_EVENTS: log[start : start + 10_000]})

def build():
    warm_up()
    live = Live(store, 1_000_000)
    for deleted in range(8):
        while live.step():
            pass
        print(psutil.Process().memory_info().rss)
        store.commit(Commit(folding.claims[0], [OffsetAdvance(DELETIONS, deleted or None, deleted + 1)], []))

thread = Thread(target=build)
thread.start()
thread.join()
"""


def test_a_graph_that_is_built_again_leaves_no_memory_behind(redis_server: Redis) -> None:
    """Seven times, as after the deletion of a user; each has 200,000 plays."""
    command = [sys.executable, "-c", BUILDING, redis_server.url]
    first, *_, last = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert last - first < 12_000_000
