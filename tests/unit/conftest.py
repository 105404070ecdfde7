"""Fixtures for tests that serve applications."""

from collections.abc import Iterator

import pytest

from tests.serving import Loop, Serve, looping, serving


@pytest.fixture
def loop() -> Iterator[Loop]:
    """The event loop of the applications under test."""
    with looping() as running:
        yield running


@pytest.fixture
def serve(loop: Loop) -> Iterator[Serve]:
    """Serves applications for as long as the test runs."""
    with serving(loop) as start:
        yield start
