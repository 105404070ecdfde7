"""The memory of a process that holds a graph."""

import subprocess
import sys

from devkit.redis_server import Redis

BUILDING = """
import sys
from random import Random
from threading import Thread

import psutil
import structlog

from services.events import LISTENING_EVENTS
from services.recommendations.live import Live, warm_up
from streamstate.state.redis import RedisStore, connect
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
