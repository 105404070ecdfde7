"""The real servers that several folders of tests share."""

import gc
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from devkit.child_process import free_port
from devkit.redis_server import Redis

# Child processes inherit the environment. A test of access passes the setting to its own servers.
os.environ["STREAMSTATE_ACCESS"] = "off"

# How many histories of an app the model of the commit protocol goes through in one process. How long one takes is no
# behaviour.
settings.register_profile("test", max_examples=150, deadline=None)
settings.register_profile("nightly", max_examples=10_000, deadline=None)
settings.load_profile("test")


def pytest_collection_finish() -> None:
    """Looking for garbage in thousands of collected tests would stop the servers of this process for a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def logging() -> Iterator[None]:
    """What a test configures is for itself alone."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis for all tests: each uses an app name or a database of its own."""
    server = Redis(tmp_path_factory.mktemp("redis"), free_port())
    server.start()
    yield server
    server.stop()
