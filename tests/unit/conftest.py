"""Fixtures for tests that serve applications."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from streamstate.web.server.asgi import Asgi
from tests.serving import Loop, Serve, Served


@pytest.fixture
def loop() -> Iterator[Loop]:
    """The event loop of the applications under test."""
    running = Loop()
    yield running
    running.stop()


@pytest.fixture
def serve(loop: Loop) -> Iterator[Serve]:
    """Serves applications for as long as the test runs."""
    with ExitStack() as stack:

        def start(address: str, app: Asgi) -> Served:
            served = Served(address, loop.wsgi(app))
            stack.callback(served.stop)
            return served

        yield start
