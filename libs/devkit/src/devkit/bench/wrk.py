"""Load by `wrk`: many connections in C, since Python clients would measure themselves."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from devkit import DevkitError

SCRIPT = Path(__file__).with_name("wrk.lua")
_TIMEOUT_S = 30


@dataclass(frozen=True)
class LoadResult:
    """What the clients of one run saw.

    Latencies are milliseconds, from a request to the last byte of its answer. `bad` counts statuses from 400, `lost`
    requests without an answer. `refused` counts those of `bad` by which a saturated server refuses: 503, and 504 when
    the deadline passed. `ok`, `refused` and `refused_p99_ms` are zero unless the run was tallied.
    """

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    bad: int
    lost: int
    ok: int
    refused: int
    refused_p99_ms: float

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def failures(self) -> int:
        """Requests that were neither answered with 200 nor refused."""
        return self.bad - self.refused + self.lost


@dataclass(frozen=True)
class Clients:
    """How the clients ask: `rate` is requests a second of all connections together, 0 for as many as they can.

    `tally` counts statuses and times refusals, which is exact with as many `threads` as `connections`. `key` is the API
    key that is sent.
    """

    connections: int
    seconds: int
    rate: float = 0
    threads: int = 1
    tally: bool = False
    key: str = ""

    def argv(self, address: str, paths: Path) -> list[str]:
        """The command that asks `address` (host:port) for the paths in the file `paths`, in turn."""
        options = [f"-t{self.threads}", f"-c{self.connections}", f"-d{self.seconds}s", f"--timeout={_TIMEOUT_S}s"]
        options += ["-H", f"Authorization: Bearer {self.key}"] if self.key else []
        script = [str(paths), str(self.rate / self.threads), str(int(self.tally))]
        return ["wrk", *options, "-s", str(SCRIPT), f"http://{address}/", "--", *script]


def run(address: str, paths: Path, clients: Clients) -> LoadResult:
    """Ask `address` until the time of `clients` is over. Raises `DevkitError` when wrk fails or is never answered."""
    argv = clients.argv(address, paths)
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        msg = "there is no wrk on the PATH; install it (Debian: apt-get install wrk)"
        raise DevkitError(msg) from error
    return parse(done.stdout, done.stderr)


def parse(output: str, errors: str) -> LoadResult:
    """The figures in wrk's output. Raises `DevkitError` when there are none, or no answer."""
    last = output.rstrip().rpartition("\n")[2]
    if not last.startswith("{"):
        msg = f"wrk gave no figures:\n{output}{errors}".rstrip()
        raise DevkitError(msg)
    answers = LoadResult(**json.loads(last))
    if answers.requests == 0:
        msg = "wrk got no answer at all; look at the log of the server that was asked"
        raise DevkitError(msg)
    return answers
