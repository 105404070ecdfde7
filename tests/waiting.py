"""Waiting for what others do."""

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 5.0, what: str = "it to hold") -> float:
    """Wait until `holds`, and return for how many seconds; fails after `seconds`, naming `what` was waited for."""
    start, pause = time.monotonic(), 0.01
    while not holds():
        assert time.monotonic() - start < seconds, f"waited {seconds} s for {what}"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)
    return time.monotonic() - start
