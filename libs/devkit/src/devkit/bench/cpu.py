"""CPU time of processes, in seconds since their start."""

from collections.abc import Iterable
from contextlib import suppress

import psutil

from devkit.process import Child


def seconds(children: Iterable[Child]) -> float:
    """User and system time of `children` and of everything below them, ended processes included."""
    return sum(_tree(child) for child in children)


def _tree(child: Child) -> float:
    total = 0.0
    top = psutil.Process(child.pid)
    for process in [top, *top.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
