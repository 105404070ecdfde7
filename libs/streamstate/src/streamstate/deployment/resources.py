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
    """The number of CPUs in its affinity mask, or of its container's CPU limit (cgroup v2) if lower; at least 1."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _LIMIT.read_text().partition(" ") if _LIMIT.exists() else ("max", "", "")
    return available if quota == "max" else max(1, min(available, int(quota) // int(period)))


def look_at_new_objects_only() -> None:
    """Exclude existing objects from garbage collection: scanning them again and again would cost a tenth of a read."""
    gc.collect()
    gc.freeze()
    # Python postpones full collections until new objects reach a quarter of the old ones.
    gc.collect()
    # Reads leave no cycles, but connections do; a connection that was open during a collection waits for a collection
    # of an older generation.
    gc.set_threshold(5_000, 5, 5)


def return_free_memory() -> None:
    """Return freed memory to the system: glibc keeps any amount for later."""
    _call("malloc_trim", 0)


def use_few_arenas() -> None:
    """Let the threads of this process, and of its later children, share the memory of the C library.

    glibc has up to eight arenas a core for threads, and returns little of their free memory to the system.
    """
    os.environ["MALLOC_ARENA_MAX"] = str(_ARENAS)
    _call("mallopt", _M_ARENA_MAX, _ARENAS)


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library, if present."""
    function = getattr(ctypes.CDLL(None), name, None)
    if function:
        function(*arguments)
