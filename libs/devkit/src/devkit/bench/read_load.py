"""Reads over HTTP: how many, how fast, and the CPU time that each process spends on one."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devkit.bench import cpu, wrk
from devkit.bench.wrk import Clients, LoadResult
from devkit.child_process import Child
from devkit.demo import say
from devkit.local_cluster import LocalCluster

OWNER, GATEWAY, COMBINED = "owner profile", "gateway profile with names", "combined answer"
STREAMS = "streams"
"""The tree of the streams: its CPU is shown, but is not part of what a read costs."""

FEW, MANY, IDLE_CONNECTIONS = 16, 256, 1_000
READ_S, PACED_S, WARM_S = 8, 15, 20


@dataclass(frozen=True)
class Read:
    """What is asked: `path` has a place for {user}, `trees` are the processes that may have a part in the answer.

    key: the API key to ask with.
    """

    name: str
    address: str
    path: str
    trees: Mapping[str, int]
    key: str = ""

    def paths(self, folder: Path, users: Sequence[int]) -> Path:
        """A file with a path for each of `users`."""
        file = folder / f"{self.name.replace(' ', '-').replace(',', '')}.txt"
        file.write_text("".join(f"{self.path.format(user=user)}\n" for user in users))
        return file


@dataclass(frozen=True)
class Situation:
    """How a read was asked: by how many connections, beside how many that ask nothing, at how many events a second.

    `paced`: at half the rate of its peak.
    """

    connections: int
    idle: int = 0
    events: int = 0
    paced: bool = False

    def __str__(self) -> str:
        beside = f", {self.idle:,} idle beside" if self.idle else ""
        load = f", {self.events:,} events/s" if self.events else ""
        pace = " at half the peak rate" if self.paced else ""
        return f"{self.connections} connections{pace}{beside}{load}"


@dataclass(frozen=True)
class Measured:
    """One read in one situation."""

    read: str
    situation: Situation
    answers: LoadResult
    usage: cpu.Usage

    def cpu_ms(self, name: str) -> float:
        """CPU milliseconds of the process `name` for each request."""
        return 1000 * self.usage.cpu[name] / self.answers.requests

    def __str__(self) -> str:
        rate = f"{self.answers.per_second:,.0f} a second, p99 {self.answers.p99_ms:.1f} ms"
        missing = f"{self.answers.refused} refused, {self.answers.failures} failed"
        return f"{self.read}, {self.situation}: {rate}, {missing}, CPU {self.total_ms:.3f} ms"

    @property
    def parts(self) -> dict[str, float]:
        """CPU milliseconds a request by process; the streams are left out, for they work on without reads."""
        return {name: self.cpu_ms(name) for name in self.usage.cpu if name != STREAMS}

    @property
    def total_ms(self) -> float:
        """CPU milliseconds a request of all processes but the streams."""
        return sum(self.parts.values())


def of_lab(cluster: LocalCluster, streams: Child) -> list[Read]:
    """The three reads; `streams` are those that run."""
    apis = {child.name.rpartition("-")[0]: child.pid for child in cluster.apis}
    owner = {"owner": apis["metrics"], "Redis": cluster.redis.pid, STREAMS: streams.pid}
    named = {"gateway": cluster.gateway.pid, "names": apis["names"], **owner}
    combined = {"recommender": apis["recommendations"], **named}
    gateway = cluster.url.removeprefix("http://")
    return [
        Read(OWNER, cluster.addresses["metrics"][0], "/v1/users/{user}/metrics", owner),
        Read(GATEWAY, gateway, "/v1/users/{user}/metrics", named),
        Read(COMBINED, gateway, "/v1/users/{user}", combined),
    ]


class ReadLoad:
    """Asks reads for `users`; files go to `folder`."""

    def __init__(self, folder: Path, users: Sequence[int]) -> None:
        self._folder = folder
        self._users = users

    def warm(self, read: Read) -> None:
        """Let caches fill and connections open."""
        wrk.run(read.address, read.paths(self._folder, self._users), Clients(FEW, WARM_S, key=read.key))

    def peak(self, read: Read, situation: Situation) -> Measured:
        """As many as the connections can."""
        with idle_connections(read.address, situation.idle):
            # So many saturate this machine, and may be refused.
            tally = situation.connections == MANY
            return self._measured(read, situation, Clients(situation.connections, READ_S, tally=tally, key=read.key))

    def paced(self, read: Read, situation: Situation, rate: float) -> Measured:
        """`rate` a second."""
        return self._measured(read, situation, Clients(situation.connections, PACED_S, rate, key=read.key))

    def _measured(self, read: Read, situation: Situation, clients: Clients) -> Measured:
        paths, meter = read.paths(self._folder, self._users), cpu.Meter(read.trees)
        answers = wrk.run(read.address, paths, clients)
        measured = Measured(read.name, situation, answers, meter.read())
        say(str(measured))
        return measured


@contextmanager
def idle_connections(address: str, count: int) -> Iterator[None]:
    """`count` connections that are kept alive after one request each."""
    host, _, port = address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.recv(4_096)
        yield
