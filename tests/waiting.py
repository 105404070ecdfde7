"""Every limit, clock and pause of the tests. A wait ends when its condition holds; only a hang reaches its limit."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120 * float(os.environ.get("TEST_PATIENCE", "1"))
"""How long a test waits for a condition. `TEST_PATIENCE` multiplies it, for a machine that is very slow."""

REQUEST_S = PATIENCE_S / 4
"""How long one request waits for its answer, so that a wait can send several."""

QUIET_S = 0.3
"""How long a test listens before it says that nothing comes."""


def until(holds: Callable[[], object], what: str = "it to hold") -> None:
    """Wait until `holds`; fails with `what` was awaited, and its last value."""
    until_fits(holds, bool, what)


def until_equal(read: Callable[[], object], expected: object, what: str = "it") -> None:
    """Wait until `read` gives `expected`."""
    until_fits(read, lambda seen: seen == expected, f"{what} to be {expected!r}")


def until_fits(read: Callable[[], T], fits: Callable[[T], object], what: str) -> T:
    """Wait until `read` gives a value that `fits`, and return it."""
    start, pause = time.monotonic(), 0.01
    while not fits(seen := read()):
        assert time.monotonic() - start < PATIENCE_S, f"waited {PATIENCE_S:g} s for {what}; seen last: {seen!r}"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)
    return seen


async def transports_closed() -> None:
    """Transports close in the next turn of the event loop."""
    await asyncio.sleep(0.01)


def pause(seconds: float) -> None:
    """Give others time. No test fails when the machine takes longer."""
    time.sleep(seconds)


async def pausing(seconds: float) -> None:
    """As `pause`, on an event loop."""
    await asyncio.sleep(seconds)


def now_s() -> float:
    """Monotonic clock in seconds: for deadlines that are given away, and for least durations."""
    return time.monotonic()


def now_ms() -> int:
    """Wall clock in ms, as timestamps of records have it."""
    return int(time.time() * 1_000)
