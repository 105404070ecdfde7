"""Fixtures for tests that serve applications."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.serving import Served, Wsgi


@pytest.fixture
def serve() -> Iterator[Callable[[str, Wsgi], Served]]:
    """Serves applications for as long as the test runs."""
    with ExitStack() as stack:

        def start(address: str, app: Wsgi) -> Served:
            served = Served(address, app)
            stack.callback(served.stop)
            return served

        yield start
