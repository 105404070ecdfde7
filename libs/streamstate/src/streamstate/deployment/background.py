"""Threads that do one thing again and again for as long as the process lives, and never end unseen."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger()


@dataclass
class _Running:
    name: str
    longest_s: float
    since: float | None = None


_RUNNING: list[_Running] = []


def keep_running(name: str, turn: Callable[[], None], pause_s: float, longest_s: float = 60.0) -> None:
    """Call `turn` in a thread of its own, again and again with `pause_s` seconds between.

    An error that `turn` does not handle is logged, and the next turn comes all the same. A turn that takes more than
    `longest_s` seconds is stuck.
    """
    running = _Running(name, longest_s)
    _RUNNING.append(running)

    def run() -> None:
        while True:
            running.since = time.monotonic()
            try:
                turn()
            except Exception:
                log.exception("an error in the background; it goes on", thread=name)
            running.since = None
            time.sleep(pause_s)

    threading.Thread(target=run, name=name, daemon=True).start()


def stuck(now: float) -> list[str]:
    """The names of those whose turn takes too long; `now` is on the monotonic clock, in seconds."""
    return [one.name for one in _RUNNING if one.since is not None and now - one.since > one.longest_s]
