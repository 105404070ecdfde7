"""What a process has for itself: memory, folders, background threads."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from streamstate.deployment import background
from streamstate.deployment.scratch import scratch
from streamstate.settings import StreamSettings, load
from streamstate.spark.executor import command
from streamstate.spark.process import own_folders
from tests.serving import sample
from tests.waiting import now_s, until, until_equal

# The memory of a process of its own.

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
    """Eight threads, which would otherwise get a heap each from glibc."""
    heaps_of_children, heaps = printed(SHARING).split("\n", 1)
    assert 1 <= heaps.count("<heap nr") <= int(heaps_of_children) == 2


# Folders of processes: the next start deletes exactly the folders of killed processes.

HOLDING = """
import signal, sys
from pathlib import Path
from streamstate.deployment.scratch import scratch

with scratch(Path(sys.argv[1])) as folder:
    (folder / "file").write_text("left")
    print(folder, flush=True)
    signal.pause()
"""


@contextmanager
def holding(parent: Path) -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    """A process that has a folder in `parent`."""
    argv = [sys.executable, "-c", HOLDING, str(parent)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield Path(process.stdout.readline().strip()), process
        process.kill()


def test_the_folder_of_a_process_that_was_killed_goes_at_the_next_start(tmp_path: Path) -> None:
    with holding(tmp_path) as (folder, process):
        process.kill()
        process.wait()
        assert (folder / "file").read_text() == "left"
        with scratch(tmp_path) as mine:
            assert not folder.exists()
            assert mine.is_dir()


def test_a_process_may_start_others_after_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(StreamSettings).model_copy(update={"checkpoints": tmp_path / "checkpoints"})
    for before in (None, str(tmp_path)):
        monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
        if before:
            monkeypatch.setenv("SPARK_LOCAL_DIRS", before)
        with own_folders(settings):
            assert os.environ["SPARK_LOCAL_DIRS"] != before
        assert os.environ.get("SPARK_LOCAL_DIRS") == before


def test_the_folders_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "1").write_text("kept")
    with holding(tmp_path) as (folder, _):
        for _ in range(2):
            with scratch(tmp_path) as mine:
                assert mine != folder
            assert not mine.exists()
        assert (folder / "file").read_text() == "left"
    assert (tmp_path / "schemas" / "1").read_text() == "kept"


# What runs in the background goes on after an error, and is told of when it is stuck.


@pytest.fixture(autouse=True)
def _nothing_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_RUNNING", [])


def test_an_error_does_not_end_it() -> None:
    turns: list[int] = []

    def turn() -> None:
        turns.append(1)
        if len(turns) > 3:
            threading.Event().wait()
        msg = "unforeseen"
        raise KeyError(msg)

    background.keep_running("failing", turn, 0.01)
    until(lambda: len(turns) > 3)
    text = generate_latest(background.FAILED).decode()
    assert sample(text, "streamstate_background_failures_total", thread="failing") == 3
    assert background.stuck(now_s()) == []


def test_a_turn_that_takes_too_long_is_told_of() -> None:
    going_on = threading.Event()

    def turn() -> None:
        going_on.wait()

    background.keep_running("hanging", turn, 3_600, longest_s=0.05)
    until_equal(lambda: background.stuck(now_s()), ["hanging"])
    going_on.set()
    until_equal(lambda: background.stuck(now_s()), [])


# What an executor's JVM is started with.

GIVEN = """DRIVER_URL=spark://driver:7078 EXECUTOR_ID=1 EXECUTOR_CORES=2 EXECUTOR_MEMORY=512m APPLICATION_ID=app
EXECUTOR_POD_IP=10.0.0.1 RESOURCE_PROFILE_ID=0 EXECUTOR_POD_NAME=metrics-0-exec-1 JAVA_OPT_10=-Dk=last
JAVA_OPT_9=-Dj=first"""
COMMAND = """-Dj=first -Dk=last -Dspark.master=k8s://https://kubernetes.default.svc -Xms512m -Xmx512m -cp /jars/*
org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url spark://driver:7078 --executor-id 1
--cores 2 --app-id app --hostname 10.0.0.1 --resourceProfileId 0 --podName metrics-0-exec-1"""


def test_the_driver_decides_all_of_it() -> None:
    given = dict(f"SPARK_{each}".split("=", 1) for each in GIVEN.split())
    assert command({**given, "PATH": "/bin"}, "/jars/*") == COMMAND.split()
