"""Background of the soak: samples of all processes, readers of a busy user, harmful clients."""

import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, linear_regression, quantiles

import urllib3
from confluent_kafka import KafkaException
from redis.exceptions import RedisError
from urllib3.exceptions import HTTPError

from devkit.bench.cpu import resident
from devkit.servers.child_process import LOCALHOST, Child
from tests.faults.fleet import Fleet
from tests.faults.load import Reads

Points = Sequence[tuple[float, float]]
"""x and y, by x."""
SAMPLE_S = 10.0
WARM_UP = 0.25
"""The part of a soak after which memory is held against its slope."""

HARMFUL = 64


def p99_ms(seconds: list[float]) -> float:
    return 1_000 * (quantiles(seconds, n=100)[98] if len(seconds) > 1 else sum(seconds))


@dataclass
class Series:
    """Samples by name, each with the minutes since the beginning."""

    started: float = field(default_factory=time.monotonic)
    by_name: defaultdict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, amount: float) -> None:
        self.by_name[name].append(((time.monotonic() - self.started) / 60, amount))


def slope(points: Points) -> float:
    """By what part of its mean an amount grows in an hour, after the warm-up."""
    warm = [point for point in points if point[0] >= WARM_UP * points[-1][0]]
    minutes, amounts = zip(*warm, strict=True)
    return 60 * linear_regression(minutes, amounts).slope / fmean(amounts)


class Samples:
    """What is looked at every `SAMPLE_S`: memory of `children`, the reads that were made, how far states are behind."""

    def __init__(self, fleet: Fleet, children: Mapping[str, Child], reads: Reads) -> None:
        self.memory, self.reads, self.lag = Series(), Series(), Series()
        self._fleet = fleet
        self._children = children
        self._known = reads
        self._seen = len(reads.all)

    def take(self) -> None:
        for name, child in self._children.items():
            self.memory.add(name, resident(child.pid) / 1e6)
        new = [read.seconds for read in self._known.all[self._seen :]]
        self._seen += len(new)
        self.reads.add("p99", p99_ms(new))
        with suppress(RedisError, KafkaException):
            self.lag.add("records behind", self._fleet.behind(self._fleet.ends()))


class BusyUser:
    """Reads a user with very many events and another in turn, and keeps the seconds that each took.

    counts: the events of the busy user that were told.
    """

    def __init__(self, url: str, busy: int, other: int) -> None:
        self.theirs: list[float] = []
        self.others: list[float] = []
        self.counts: set[int] = set()
        self._busy = busy
        self._other = other
        self._pool = urllib3.connection_from_url(url, maxsize=1, retries=False, timeout=10)

    def read(self) -> None:
        """Both once; a read that fails is not counted."""
        with suppress(HTTPError):
            self._timed(self._other, self.others)
            answer = self._timed(self._busy, self.theirs)
            if answer.status == 200:
                self.counts.add(answer.json()["eventCount"])

    def _timed(self, user: int, seconds: list[float]) -> urllib3.BaseHTTPResponse:
        asked = time.monotonic()
        answer = self._pool.request("GET", f"/v1/users/{user}/metrics")
        if answer.status == 200:
            seconds.append(time.monotonic() - asked)
        return answer


class Harm:
    """`HARMFUL` connections to the gateway: half of them send a head byte by byte, half read no answer."""

    def __init__(self, url: str) -> None:
        self._port = urllib3.util.parse_url(url).port
        self._open: dict[int, socket.socket] = {}
        self.ended = 0

    def go_on(self) -> None:
        """Open ended connections again, and send a few bytes on each."""
        for number in range(HARMFUL):
            try:
                self._open[number].send(self._next(number))
            except (KeyError, OSError):
                self._renew(number)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    def _renew(self, number: int) -> None:
        if (old := self._open.pop(number, None)) is not None:
            self.ended += 1
            old.close()
        with suppress(OSError):
            connection = socket.create_connection((LOCALHOST, self._port), timeout=5)
            connection.setblocking(False)
            connection.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
            self._open[number] = connection

    @staticmethod
    def _next(number: int) -> bytes:
        return b"x" if number % 2 else b"\r\n\r\nGET /v1/system HTTP/1.1\r\nHost: x\r\n" * 4
