"""The cores and the memory of a process that runs for months."""

import ctypes
import gc
import os
from pathlib import Path

_M_ARENA_MAX = -8
"""Of glibc's malloc.h."""
_ARENAS = 2

_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """The CPUs in its affinity mask, or the CPU limit of its container (cgroup v2) if that is lower; at least 1."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _LIMIT.read_text().partition(" ") if _LIMIT.exists() else ("max", "", "")
    return available if quota == "max" else max(1, min(available, int(quota) // int(period)))


def look_at_new_objects_only() -> None:
    """What has been made by now stays: looking for garbage in it again and again would cost a tenth of a read."""
    gc.collect()
    gc.freeze()
    # Python puts full collections off until the objects that came since the last one are a quarter of what it has left.
    gc.collect()
    # Reads leave no cycles; a connection does, and if it was open during a collection, it waits for one of an older
    # generation.
    gc.set_threshold(5_000, 5, 5)


def return_free_memory() -> None:
    """Give back to the system what was freed: glibc keeps it for later, however much it is."""
    _call("malloc_trim", 0)


def use_few_arenas() -> None:
    """Let the threads of this process, and of its later children, share the memory of the C library.

    glibc has up to eight arenas a core for them, and gives little of what is free in these back to the system.
    """
    os.environ["MALLOC_ARENA_MAX"] = str(_ARENAS)
    _call("mallopt", _M_ARENA_MAX, _ARENAS)


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library, where it has it."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function:
        function(*arguments)
