"""CPU time and memory of process trees, and the pressure on the machine's cores."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_PRESSURE = Path("/proc/pressure/cpu")
_TOTAL = re.compile(r"some .*total=(\d+)")


@dataclass(frozen=True)
class Usage:
    """What was used in a span of `seconds`.

    `cpu`: CPU seconds by name. `pressure`: the share of the time in which a task waited for a core, 0 to 1; None
    where the kernel does not tell it.
    """

    seconds: float
    cpu: Mapping[str, float]
    pressure: float | None

    def cores(self, *names: str) -> float:
        """CPU seconds a second of the named trees, of all without a name."""
        return sum(self.cpu[name] for name in names or self.cpu) / self.seconds


class Meter:
    """Counts from its creation on. `trees` gives the process at the top of each."""

    def __init__(self, trees: Mapping[str, int]) -> None:
        self._trees = trees
        self._cpu = self._now()
        self._stalled = _stalled()
        self._started = time.monotonic()

    def read(self) -> Usage:
        """The usage since the creation."""
        passed, stalled = time.monotonic() - self._started, _stalled()
        cpu = {name: total - self._cpu[name] for name, total in self._now().items()}
        pressure = None if stalled is None or self._stalled is None else (stalled - self._stalled) / passed
        return Usage(passed, cpu, pressure)

    def _now(self) -> dict[str, float]:
        return {name: seconds(pid) for name, pid in self._trees.items()}


def seconds(pid: int) -> float:
    """User and system time of a process and of everything below it, ended processes included."""
    total = 0.0
    for process in _tree(pid):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident(pid: int) -> int:
    """Resident bytes of a process and of everything below it; shared pages count once for each."""
    total = 0
    for process in _tree(pid):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total


def _tree(pid: int) -> Iterator[psutil.Process]:
    top = psutil.Process(pid)
    yield top
    yield from top.children(recursive=True)


def _stalled() -> float | None:
    """Seconds since boot in which a task waited for a core."""
    total = _TOTAL.search(_PRESSURE.read_text()) if _PRESSURE.exists() else None
    return int(total[1]) / 1e6 if total else None
