"""Background work during a block of code."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def repeating(act: Callable[[], T], every_s: float = 0.0) -> Iterator[list[T]]:
    """Call `act` in a thread every `every_s` seconds while the block runs; yields the growing list of its results.

    A call that takes longer delays the next calls, of which one is made up for. Raises an exception of `act` after the
    block.
    """
    stop, returned = threading.Event(), list[T]()

    def run() -> None:
        due = time.monotonic() + every_s
        while not stop.wait(max(0.0, due - time.monotonic())):
            returned.append(act())
            due = max(due, time.monotonic() - every_s) + every_s

    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(run)
        try:
            yield returned
        finally:
            stop.set()
        running.result()
