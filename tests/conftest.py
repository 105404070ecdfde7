"""The real servers that several folders of tests share."""

import gc
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from devkit.servers.child_process import free_port
from devkit.servers.redis import Redis

# Child processes inherit the environment. A test of access passes the setting to its own servers.
os.environ["STREAMSTATE_ACCESS"] = "off"
# Requests of tests end by an answer: those about deadlines set a shorter one.
os.environ["STREAMSTATE_DEADLINE_MS"] = "60000"

# How many histories of an app the model of the commit protocol goes through in one process. How long one takes is no
# behaviour.
settings.register_profile("test", max_examples=150, deadline=None)
settings.register_profile("nightly", max_examples=10_000, deadline=None)
settings.register_profile("quick", max_examples=20, deadline=None)
settings.load_profile("test")

STARTS_SERVERS = re.compile(r"\b(Child|Popen|running|three_nodes)\(|web\.process import|redis_(server|client|store)\b")
"""In files with tests that start servers, other than by a parameter."""


SHARED = {
    "cluster": re.compile("driving: Driving"),
    "servers": re.compile("servers: LocalCluster|releases: Releases|deployment: Deployment"),
}


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no annotations
    """Gives all files with the same servers to one process, which starts the servers once; other files one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(super()._split_scope(nodeid))


@cache
def _scope(file: str) -> str:
    text = Path(file).read_text()
    return next((scope for scope, using in SHARED.items() if using.search(text)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make test-quick` leaves out."""
    for item in items:
        stores = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if "redis" in stores or _starts_servers(item.path):
            item.add_marker("servers")


@cache
def _starts_servers(path: Path) -> bool:
    return bool(STARTS_SERVERS.search(path.read_text()))


def pytest_collection_finish() -> None:
    """Looking for garbage in thousands of collected tests would stop the servers of this process for a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def logging() -> Iterator[None]:
    """What a test configures is for itself alone. Logs of servers in this process are no output of a command."""
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis for all tests: each uses an app name or a database of its own."""
    server = Redis(tmp_path_factory.mktemp("redis"), free_port())
    server.start()
    yield server
    server.stop()
