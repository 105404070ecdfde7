"""What runs in the background goes on after an error, and is told of when it is stuck."""

import threading
import time

import pytest
from prometheus_client import generate_latest

from streamstate.deployment import background
from tests.serving import sample, until


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
    assert background.stuck(time.monotonic()) == []


def test_a_turn_that_takes_too_long_is_told_of() -> None:
    going_on = threading.Event()

    def turn() -> None:
        going_on.wait()

    background.keep_running("hanging", turn, 3_600, longest_s=0.05)
    until(lambda: background.stuck(time.monotonic()) == ["hanging"])
    going_on.set()
    until(lambda: background.stuck(time.monotonic()) == [])
