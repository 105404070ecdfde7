"""Twitter's GraphJet on the same edges, by a harness that is not part of this project."""

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from devkit import DevkitError

_EDGES = re.compile(r"= (\d+)/cpu-s")
_WALKS = re.compile(r"cpu of the thread: mean [\d.]+, p50 ([\d.]+)")


@dataclass(frozen=True)
class GraphJet:
    """What it took: edges a CPU second when they come in, CPU milliseconds in the middle for a recommendation."""

    edges: float
    walks_ms: float


def measure(command: str, edges: NDArray[np.int64], users: int, scratch: Path) -> GraphJet:
    """Run `command` with a file of `edges` (int64 of shape (n, 2)) for `users` users; takes minutes.

    Raises `DevkitError` with its last lines when it does not tell the figures.
    """
    file = scratch / "edges.bin"
    edges.astype("<i8").tofile(file)
    argv = [*shlex.split(command), str(file), f"--users={users}"]
    found = subprocess.run(argv, check=False, capture_output=True, text=True)
    coming, walks = _EDGES.search(found.stdout), _WALKS.search(found.stdout)
    if coming is None or walks is None:
        lines = (found.stdout + found.stderr).strip().splitlines()[-10:]
        msg = "\n".join(["GRAPHJET did not tell its figures; its last lines:", *lines])
        raise DevkitError(msg)
    return GraphJet(float(coming[1]), float(walks[1]))
