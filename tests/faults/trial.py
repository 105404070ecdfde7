"""A row of the report: a fault, tried for each seed under load, and the observations."""

import math
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from devkit.cluster.states import Ends, States
from devkit.lab.load import Reads
from tests.faults.fault_report import Row
from tests.faults.load import READS_PER_S, reading, writing
from tests.waiting import until

ALL_SEEDS = "1,2,3"
SEEDS = os.environ.get("SEEDS", ALL_SEEDS)
PAUSE_S = 2.0


class Subject(Protocol):
    """What is put under load: the profiles `known` (by user), which do not change, are read, events go to `topic`."""

    @property
    def url(self) -> str: ...

    @property
    def known(self) -> Mapping[int, Any]: ...

    @property
    def topic(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    def catch_up(self) -> float:
        """Wait until the states stand where the topics end now; the seconds it took."""
        ...

    def differences(self) -> list[str]:
        """The differences between the states and a recount of the topics."""
        ...


class Trial:
    """`draw` decides events and moments, by the fault and the seed alone.

    figures: further texts of the row.
    """

    def __init__(self, fault: str, what: str) -> None:
        self.draw = random.Random(fault)
        self.times = 0
        self.recovered_s: list[float] = []
        self.reads = Reads()
        self.figures: list[str] = []
        self.differences: list[str] = []
        self._fault = fault
        self._what = what

    def seeds(self) -> Iterator[int]:
        """Each seed in turn."""
        for seed in map(int, SEEDS.split(",")):
            self.draw.seed(f"{self._fault} {seed}")
            print(f"{self._fault}, seed {seed}")
            yield seed

    def moment(self, most_s: float = PAUSE_S) -> None:
        """Wait for a random moment."""
        time.sleep(self.draw.uniform(0.2, most_s))

    def recover(self, subject: Subject) -> None:
        """A fault is over: wait until the states have caught up."""
        self.times += 1
        self.recovered_s.append(subject.catch_up())

    def require_recovered(self, within_s: float) -> None:
        """Hold the time of recoveries in a run of all seeds, which has the machine to itself."""
        assert SEEDS != ALL_SEEDS or max(self.recovered_s) <= within_s

    @contextmanager
    def load(self, subject: Subject, reads_per_s: float = READS_PER_S, *, writes: bool = True) -> Iterator[None]:
        """Read, and write, while the block runs."""
        with ExitStack() as stack:
            if writes:
                # Not `draw`: what happens must not depend on how many events were sent.
                events = random.Random(self._fault)
                stack.enter_context(writing(subject.bootstrap, subject.topic, events))
            stack.enter_context(reading(subject.url, subject.known, self.reads, reads_per_s))
            yield

    def recount(self, subject: Subject) -> None:
        """Hold the states against the topics."""
        self.differences += subject.differences()

    @property
    def errors(self) -> list[str]:
        """Differences of the states, and wrong answers."""
        return [*self.differences, *self.reads.wrong]

    def row(self) -> Row:
        errors, failed, recovered_s = self.errors, self.reads.failed, max(self.recovered_s, default=0.0)
        failures = f" ({failed:,} failed in {self.reads.longest_s:.1f} s)" if failed else ""
        return (
            self._fault,
            self._what,
            f"{self.times:,}",
            f"{len(self.reads.all):,}{failures}",
            f"{recovered_s:.1f} s" if recovered_s >= 0.05 else "",
            "; ".join([*([f"{len(errors):,} errors"] if errors else []), *self.figures]),
        )


def caught_up(states: States) -> float:
    """Wait until `states` stand where their topics end now, while records are folded; the seconds it took."""
    started, left = time.monotonic(), math.inf
    ends: list[Ends] = []

    def folds() -> bool:
        nonlocal left
        try:
            ends[:] = ends or [states.ends()]
            before, left = left, states.behind(*ends)
        except (RedisError, KafkaException):
            # A client has yet to notice that its server is back.
            return False
        return left == 0 or left < before

    while left:
        until(folds, "the streams to catch up")
    return time.monotonic() - started
