"""Background threads that call a function periodically, with a check for stuck threads."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import Counter

from streamstate.deployment.metrics import Definition

log = structlog.get_logger()

FAILURES = Definition(
    "streamstate_background_failures_total",
    ("thread",),
    "failed and repeated calls of a background thread",
)
METRICS = (FAILURES,)

FAILED = Counter(FAILURES.name, FAILURES.meaning, FAILURES.labels, registry=None)
"""For all threads of this process; registered by processes that answer scrapes."""


@dataclass
class _Running:
    name: str
    longest_s: float
    since: float | None = None


_RUNNING: list[_Running] = []


def keep_running(
    name: str,
    turn: Callable[[], None],
    pause_s: float,
    longest_s: float = 60.0,
    stopping: threading.Event | None = None,
) -> None:
    """Call `turn` in a daemon thread until `stopping`, with a pause of `pause_s` seconds between two calls.

    An exception is logged and counted, and the calls continue. A call longer than `longest_s` seconds is stuck.
    """
    ending = stopping or threading.Event()
    running = _Running(name, longest_s)
    _RUNNING.append(running)
    failed = FAILED.labels(name)

    def run() -> None:
        while not ending.is_set():
            running.since = time.monotonic()
            try:
                turn()
            except Exception:
                failed.inc()
                log.exception("a background thread failed; it is called again", thread=name)
            running.since = None
            ending.wait(pause_s)

    threading.Thread(target=run, name=name, daemon=True).start()


def stuck(now: float) -> list[str]:
    """The names of the stuck threads at `now`, in seconds of the monotonic clock."""
    return [turn.name for turn in _RUNNING if turn.since is not None and now - turn.since > turn.longest_s]
