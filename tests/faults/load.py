"""Writes and reads during a fault: reads are for users without further plays, writes for other users."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import urllib3
from urllib3.exceptions import HTTPError

from devkit.events import records
from streamstate.kafka.producer import producer

WRITES_PER_S = 800
READS_PER_S = 100
READERS = 8
FIRST_MOVING = 1_000_000
MOVING = 2_000
ATTEMPTS = 60
BROKEN = 500
"""One event in so many cannot be used."""

_TICK_S = 0.02
_BURST_S = 1.0


class Writing:
    """Context manager: a thread sends to `topic` events of `users` who are not read, at `WRITES_PER_S`."""

    def __init__(self, bootstrap: str, topic: str, draw: random.Random, users: int = MOVING) -> None:
        self._out = producer(bootstrap)
        self._topic = topic
        self._draw = draw
        self._users = users
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Wait until Kafka has acknowledged all of them."""
        self._stop.set()
        self._thread.join()
        self._out.flush()

    def _run(self) -> None:
        sent, started = 0, time.monotonic()
        while not self._stop.wait(max(0.0, started + sent / WRITES_PER_S - time.monotonic())):
            for _ in range(int(WRITES_PER_S * _TICK_S)):
                sent += 1
                self._send()
            self._out.poll(0)

    def _send(self) -> None:
        draw = self._draw.randrange
        user = FIRST_MOVING + draw(self._users)
        key, value = records.event(user, draw(60), draw(200), draw(900), 1_750_000_000_000 + draw(10**9))
        try:
            self._out.produce(self._topic, value if draw(BROKEN) else value[:-1], key)
        except BufferError:
            self._out.poll(0.1)


class Read(NamedTuple):
    """A read: moment (seconds of the monotonic clock), duration, and failure, if any."""

    user: int
    asked: float
    seconds: float
    failure: str


@dataclass
class Reads:
    """The reads. `bad` lists wrong answers."""

    all: list[Read] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(bool(read.failure) for read in self.all)

    @property
    def kinds(self) -> Counter[str]:
        """How many failed, by kind."""
        return Counter(read.failure for read in self.all if read.failure)

    @property
    def longest_s(self) -> float:
        """Seconds of the longest time with failures, in which none is a second from the next."""
        longest, start, last = 0.0, 0.0, -_BURST_S
        for moment in sorted(read.asked + read.seconds for read in self.all if read.failure):
            start = moment if moment - last >= _BURST_S else start
            longest, last = max(longest, moment - start), moment
        return longest


class Reading:
    """Context manager: threads read `expected` (profiles by user, without names) at `url`, and add to `reads`."""

    def __init__(self, url: str, expected: Mapping[int, Any], reads: Reads, per_s: float = READS_PER_S) -> None:
        self._reads = reads
        self._url = url
        self._expected = expected
        self._pause_s = READERS / per_s
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(READERS)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        users = sorted(self._expected)
        pool = urllib3.connection_from_url(self._url, maxsize=1, retries=False, timeout=10)
        at, due = number, time.monotonic() + number * self._pause_s / READERS
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._read(pool, users[at % len(users)])
            at += READERS
            due = max(due + self._pause_s, time.monotonic() - self._pause_s)

    def _read(self, pool: urllib3.HTTPConnectionPool, user: int) -> None:
        asked = time.monotonic()
        try:
            answer = pool.request("GET", f"/v1/users/{user}/metrics")
            failure, bad = judge(answer, self._expected[user])
        except HTTPError as error:
            failure, bad = type(error).__name__, ""
        # Lists may be appended to by several threads.
        self._reads.all.append(Read(user, asked, time.monotonic() - asked, failure))
        if bad:
            self._reads.bad.append(bad)


def judge(answer: urllib3.BaseHTTPResponse, expected: Any) -> tuple[str, str]:
    """How the read failed, and what is wrong with the answer; empty for a good one."""
    if answer.status == 200:
        profile = without_names(answer.json())
        return ("", "") if profile == expected else ("", f"expected {expected}, profile {profile}")
    problem = answer.headers.get("Content-Type") == "application/problem+json"
    if answer.status in (503, 504) and problem and (answer.status == 504 or "Retry-After" in answer.headers):
        return str(answer.status), ""
    return str(answer.status), f"{answer.status} {answer.data[:200]!r}"


def without_names(profile: Any) -> Any:
    """A profile as the state of metrics alone makes it."""
    charts = {name: [(row["id"], row["countPlays"]) for row in profile[name]] for name in profile if "topTen" in name}
    return {
        name: profile[name] for name in ("userId", "eventCount", "firstListeningEvent", "lastListeningEvent")
    } | charts


def known(url: str, users: Iterable[int]) -> dict[int, Any]:
    """The profiles of `users` as `url` tells them, without names; a read that is refused is asked again."""
    return {user: _profile(f"{url}/v1/users/{user}/metrics") for user in users}


def _profile(url: str) -> Any:
    for _ in range(ATTEMPTS):
        answer = urllib3.request("GET", url, timeout=10, retries=False)
        if answer.status == 200:
            return without_names(answer.json())
        time.sleep(1)
    raise AssertionError(f"{url} answered {answer.status}: {answer.data.decode()}")
