"""The number of cores of this process."""

import os
from pathlib import Path

_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """The CPUs in its affinity mask, or the CPU limit of its container (cgroup v2) if that is lower; at least 1."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _LIMIT.read_text().partition(" ") if _LIMIT.exists() else ("max", "", "")
    return available if quota == "max" else max(1, min(available, int(quota) // int(period)))
