"""A load at steady rates: records into Kafka, requests over HTTP, and the answers to them."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import urllib3
from urllib3.exceptions import HTTPError

from devkit.demo import say
from devkit.repeating import repeating
from streamstate.kafka.producer import Outgoing, producer

TICK_S = 0.02
BURST_S = 1.0


class Read(NamedTuple):
    """A read about `user`: its moment (seconds of the monotonic clock), its duration, and its failure, if any."""

    user: int
    asked: float
    seconds: float
    failure: str = ""


@dataclass
class Reads:
    """Reads, and descriptions of wrong answers."""

    all: list[Read] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

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
        longest, start, last = 0.0, 0.0, -BURST_S
        for moment in sorted(read.asked + read.seconds for read in self.all if read.failure):
            start = moment if moment - last >= BURST_S else start
            longest, last = max(longest, moment - start), moment
        return longest

    def ms(self, percent: float) -> float:
        """The percentile of the durations, in milliseconds; 0 without reads."""
        return 1_000 * float(np.percentile([read.seconds for read in self.all], percent)) if self.all else 0.0

    def take(self) -> "Reads":
        """Remove the reads so far, and return them."""
        taken = Reads(self.all, self.wrong)
        self.all, self.wrong = [], []
        return taken


Judge = Callable[[urllib3.BaseHTTPResponse], tuple[str, str]]
"""Of an answer: how the read failed, and what is wrong with the answer; empty for a good one."""


class Request(NamedTuple):
    """A request about `user`; with a `body` it is a POST."""

    user: int
    path: str
    judge: Judge
    body: str | None = None


@contextmanager
def sending(kafka: str, records: Iterator[Outgoing], per_s: float) -> Iterator[None]:
    """Send `records` at a steady rate while the block runs; ends when Kafka has acknowledged all of them."""
    out, started, sent = producer(kafka), time.monotonic(), 0

    def send() -> None:
        nonlocal sent
        for topic, key, value, headers in itertools.islice(records, int(per_s * TICK_S)):
            sent += 1
            try:
                out.produce(topic, value, key, headers=headers)
            except BufferError:
                # The broker is away: the record is dropped.
                out.poll(0.1)
        out.poll(0)
        time.sleep(max(0.0, started + sent / per_s - time.monotonic()))

    with repeating(send):
        yield
    say(f"sent {sent / (time.monotonic() - started):,.0f} records a second meanwhile")
    out.flush()


@contextmanager
def asking(url: str, request: Callable[[int], Request], reads: Reads, per_s: float, readers: int = 8) -> Iterator[None]:
    """Ask `url` at a steady rate by clients with a read at a time, while the block runs.

    request: the request of a number, which counts up from 0. reads: gets the reads.
    """
    numbers = itertools.count()
    pool = urllib3.connection_from_url(url, maxsize=readers, retries=False, timeout=10)

    def read() -> None:
        user, path, judge, body = request(next(numbers))
        started = time.monotonic()
        try:
            failure, wrong = judge(pool.request("POST" if body else "GET", path, body=body))
        except HTTPError as error:
            failure, wrong = type(error).__name__, ""
        reads.all.append(Read(user, started, time.monotonic() - started, failure))
        if wrong:
            reads.wrong.append(wrong)

    with ExitStack() as stack:
        for _ in range(readers):
            stack.enter_context(repeating(read, readers / per_s))
            # The readers take turns.
            time.sleep(1 / per_s)
        yield
