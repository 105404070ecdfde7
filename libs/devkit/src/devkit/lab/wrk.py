"""Load by `wrk`: many connections in C, since a Python client would measure its own CPU time."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import DevkitError

SCRIPT = Path(__file__).with_name("wrk.lua")
_TIMEOUT_S = 30


@dataclass(frozen=True)
class LoadResult:
    """The responses of a run.

    Latencies are milliseconds, from a request to the last byte of its answer. bad: statuses from 400. lost: requests
    without an answer. refused: the part of `bad` with 503 or 504; 0 without a tally.
    """

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    bad: int
    lost: int
    refused: int

    @property
    def ok(self) -> int:
        return self.requests - self.bad

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def failures(self) -> int:
        """Requests neither answered with 200 nor refused."""
        return self.bad - self.refused + self.lost


@dataclass(frozen=True)
class Clients:
    """Clients in a single thread, for `seconds`.

    rate: requests a second of all connections together; 0 without a limit. tally: whether refusals are counted.
    token: an API key or JWT to send, if any.
    """

    connections: int
    seconds: int
    rate: float = 0
    tally: bool = False
    token: str = ""

    def argv(self, address: str, paths: Path) -> list[str]:
        """The command to request the paths in the file `paths` from `address` (host:port), in turn."""
        options = ["-t1", f"-c{self.connections}", f"-d{self.seconds}s", f"--timeout={_TIMEOUT_S}s"]
        script = [str(paths), str(self.rate), str(int(self.tally))]
        access = ["-H", f"Authorization: Bearer {self.token}"] if self.token else []
        return ["wrk", *options, *access, "-s", str(SCRIPT), f"http://{address}/", "--", *script]


def run(address: str, paths: Sequence[str], clients: Clients) -> LoadResult:
    """Request `paths` from `address` in turn until the time of `clients` is over.

    Raises `DevkitError` when wrk fails or receives no answer.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".paths") as file:
        file.writelines(f"{path}\n" for path in paths)
        file.flush()
        done = subprocess.run(clients.argv(address, Path(file.name)), check=False, capture_output=True, text=True)
    return parse(done.stdout, done.stderr)


def parse(output: str, errors: str) -> LoadResult:
    """The figures in wrk's output. Raises `DevkitError` without figures or answers."""
    last = output.rstrip().rpartition("\n")[2]
    if not last.startswith("{"):
        msg = f"wrk gave no figures:\n{output}{errors}".rstrip()
        raise DevkitError(msg)
    answers = LoadResult(**json.loads(last))
    if answers.requests == 0:
        msg = "wrk got no answer at all; look at the log of the server that was asked"
        raise DevkitError(msg)
    return answers
