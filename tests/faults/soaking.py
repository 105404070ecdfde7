"""Background of the soak: samples of all processes over time, and harmful clients."""

import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean, linear_regression

import urllib3
from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from devkit.cluster.states import States
from devkit.lab.cpu import resident
from devkit.lab.load import Reads
from devkit.servers.child_process import LOCALHOST, Child

Points = Sequence[tuple[float, float]]
"""Minutes since the beginning, and an amount."""
SAMPLE_S = 10.0
WARM_UP = 0.25
"""The part of a soak after which memory is held against its slope."""

LATENCY, LAG = "p99 of reads, ms", "records behind"
HARMFUL = 64


def slope(points: Points) -> float:
    """By what part of its mean an amount grows in an hour, after the warm-up."""
    warm = [point for point in points if point[0] >= WARM_UP * points[-1][0]]
    minutes, amounts = zip(*warm, strict=True)
    return 60 * linear_regression(minutes, amounts).slope / fmean(amounts)


class Samples:
    """Points by name, one every `SAMPLE_S`: megabytes of `children`, p99 of the `reads`, how far states are behind."""

    def __init__(self, states: States, children: Mapping[str, Child], reads: Reads) -> None:
        self.by_name: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        self.children = children
        self._started = time.monotonic()
        self._states = states
        self._reads = reads
        self._seen = len(reads.all)

    def take(self) -> None:
        for name, child in self.children.items():
            self._add(name, resident(child.pid) / 1e6)
        new = Reads(self._reads.all[self._seen :])
        self._seen += len(new.all)
        self._add(LATENCY, new.ms(99))
        with suppress(RedisError, KafkaException):
            self._add(LAG, self._states.behind(self._states.ends()))

    def _add(self, name: str, amount: float) -> None:
        self.by_name[name].append(((time.monotonic() - self._started) / 60, amount))


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
