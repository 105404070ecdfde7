"""CPU time and memory of process trees, and the pressure on the machine's cores."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_PRESSURE = Path("/proc/pressure/cpu")
_TOTAL = re.compile(r"some .*total=(\d+)")


@dataclass(frozen=True)
class Usage:
    """The usage in a span of `seconds`.

    cpu: CPU seconds by process tree. pressure: the share of the time in which a task waited for a core, 0 to 1; None
    where the kernel does not report pressure.
    """

    seconds: float
    cpu: Mapping[str, float]
    pressure: float | None

    @property
    def cores(self) -> dict[str, float]:
        """CPU seconds a second, by process tree."""
        return {name: cpu / self.seconds for name, cpu in self.cpu.items()}

    @property
    def pressure_text(self) -> str:
        """The pressure in percent, if the kernel reports it."""
        return "" if self.pressure is None else f"; pressure {self.pressure:.0%}"

    def __str__(self) -> str:
        total = sum(self.cores.values())
        parts = ", ".join(
            f"{name} {amount:.2f}" for name, amount in self.cores.items() if amount >= max(0.005, 0.01 * total)
        )
        return f"{total:.2f}: {parts}{self.pressure_text}"


class Meter:
    """Measures from its creation on. `trees` gives the process at the top of each tree."""

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
    """User and system time of a process and all its descendants, ended processes included."""
    return _total(pid, lambda process: sum(process.cpu_times()[:4]))


def resident(pid: int) -> int:
    """Resident bytes of a process and all its descendants; a shared page counts once for each process."""
    return int(_total(pid, lambda process: process.memory_info().rss))


def _total(pid: int, amount: Callable[[psutil.Process], float]) -> float:
    top, total = psutil.Process(pid), 0.0
    for process in (top, *top.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += amount(process)
    return total


def _stalled() -> float | None:
    """Seconds since boot in which a task waited for a core."""
    total = _TOTAL.search(_PRESSURE.read_text()) if _PRESSURE.exists() else None
    return int(total[1]) / 1e6 if total else None
