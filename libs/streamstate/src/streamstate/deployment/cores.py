"""How many cores this process has."""

import os
from pathlib import Path

_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """Those that it may run on; fewer where its container is limited (cgroup v2), at least one."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _LIMIT.read_text().partition(" ") if _LIMIT.exists() else ("max", "", "")
    return there if quota == "max" else max(1, min(there, int(quota) // int(period)))
