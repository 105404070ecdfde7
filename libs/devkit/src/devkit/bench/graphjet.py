"""Twitter's GraphJet on the same edges, by a harness that is not part of this project."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devkit import DevkitError

USERS = 60
_EDGES = re.compile(r"= (\d+)/cpu-s")
_WALKS = re.compile(r"cpu of the thread: mean [\d.]+, p50 ([\d.]+)")


@dataclass(frozen=True)
class GraphJet:
    """Edges taken in a CPU second, and median CPU milliseconds of a recommendation."""

    edges: float
    request_ms: float


def measure(peers: Path, source: Path, cache: Path, data: Path) -> GraphJet:
    """Build `source` into `cache` and run it on `edges.bin` of the folder `data`; minutes. Raises `DevkitError`."""
    argv = [str(peers / "graphjet/run.sh"), str(source), str(data / "edges.bin"), f"--users={USERS}"]
    env = {**os.environ, "PEERS_CACHE": str(cache / "jars")}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env)
    return parse(done.stdout, done.stderr)


def parse(output: str, errors: str) -> GraphJet:
    """The figures in the harness' output. Raises `DevkitError` with its last lines when there are none."""
    edges, request = _EDGES.search(output), _WALKS.search(output)
    if edges is None or request is None:
        lines = (output + errors).strip().splitlines()[-10:]
        msg = "\n".join(["GraphJet's harness gave no figures; its last lines:", *lines])
        raise DevkitError(msg)
    return GraphJet(float(edges[1]), float(request[1]))
