"""The memory of a process of its own."""

import subprocess
import sys

COLLECTING = """
import gc
from collections import deque
from streamstate.deployment import resources

class Connection:
    def __init__(self):
        self.itself = self

modules = [Connection() for _ in range(200_000)]
resources.look_at_new_objects_only()
opened, most = deque(maxlen=1_000), 0
for number in range(1_000_000):
    opened.append(Connection())
    if number % 1_000 == 0:
        most = max(most, len(gc.get_objects()))
print(most)
"""

FREEING = """
import psutil
from streamstate.deployment import resources

resident = lambda: psutil.Process().memory_info().rss
before = resident()
blocks = [b"x" * 50_000 for _ in range(2_000)]
del blocks[:-1]
freed = resident()
resources.return_free_memory()
print(freed - before, resident() - before)
"""

SHARING = """
import ctypes, os
from threading import Barrier, Thread
from streamstate.deployment import resources

resources.use_few_arenas()
all_here = Barrier(8)

def allocate():
    all_here.wait()
    kept = [b"x" * 600 for _ in range(1_000)]
    all_here.wait()

threads = [Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(os.environ["MALLOC_ARENA_MAX"], flush=True)
c = ctypes.CDLL(None)
c.malloc_info(0, ctypes.c_void_p.in_dll(c, "stdout"))
c.fflush(None)
"""


def printed(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_what_was_in_use_when_garbage_was_looked_for_goes_soon_after() -> None:
    """A thousand connections are open at any time; each is a cycle, and outlives the look at young objects."""
    assert int(printed(COLLECTING)) < 25_000


def test_memory_that_was_freed_goes_back_below_what_is_kept() -> None:
    """A hundred megabytes, of which the last part is still in use."""
    freed, returned = map(int, printed(FREEING).split())
    assert freed > 80_000_000
    assert returned < 10_000_000


def test_threads_share_the_memory_of_the_c_library() -> None:
    """Eight of them, which glibc would otherwise give a heap each."""
    heaps_of_children, heaps = printed(SHARING).split("\n", 1)
    assert 1 <= heaps.count("<heap nr") <= int(heaps_of_children) == 2
