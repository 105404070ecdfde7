"""Background work during a block of code."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def repeating(act: Callable[[], T], pause_s: float = 0.0) -> Iterator[list[T]]:
    """Call `act` in a thread while the block runs, after pauses of `pause_s`; yields the growing list of its results.

    Raises an exception of `act` after the block.
    """
    stop, returned = threading.Event(), list[T]()

    def run() -> None:
        while not stop.wait(pause_s):
            returned.append(act())

    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(run)
        try:
            yield returned
        finally:
            stop.set()
        running.result()
