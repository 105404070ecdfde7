"""Declared windows against the same measures without windows, in one process over a Redis of its own."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from devkit.bench.report import BenchReport, Target
from devkit.child_process import free_port
from devkit.demo import say
from devkit.redis_server import Redis
from streamstate import bootstrap
from streamstate.keys import LONG
from streamstate.processing.decode import RawRecord
from streamstate.profile import profile_app
from streamstate.profile.answer import Moment
from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import MeasureWords
from streamstate.state.redis import connect
from streamstate.testing import Driver

TOPIC, END_MS, DAY_MS = "listening-events", 1_767_268_800_000, 86_400_000
IDS = ("artistId", "albumId", "trackId")
EVENTS, USERS, TOGETHER, ROUNDS = 100_000, 10_000, 2_000, 3
QUIET, BUSY = USERS + 1, USERS + 2
"""A user with 21 plays in 30 days, and a user with 1,000 plays a day."""
READS: Mapping[int, int] = {QUIET: 1_000, BUSY: 100}


def declared(name: str, *windows: str) -> Declaration:
    """The measures of metrics, over `windows`."""
    over = list(windows)
    tops = {kind: MeasureWords(top=10, of=kind, over=over) for kind in IDS}
    measures = {"plays": MeasureWords(count="all", over=over), "last": MeasureWords(last="timestamp"), **tops}
    return Declaration(name, TOPIC, "long", "/v1/users/<key>/x", measures, dict.fromkeys(IDS, "int"))


def events() -> list[RawRecord]:
    """Plays of 8 days by users with few and many plays, in the order of their times."""
    random = Random(1)  # noqa: S311, nothing secret
    times = sorted(END_MS - random.randrange(8 * DAY_MS) for _ in range(EVENTS))
    return [_record(random, offset, at, int(USERS ** random.random())) for offset, at in enumerate(times)]


def listeners() -> list[RawRecord]:
    """The plays of `QUIET` and `BUSY` in 30 days."""
    random = Random(2)  # noqa: S311, nothing secret
    plays = [
        (END_MS - random.randrange(30 * DAY_MS), user) for user, n in ((QUIET, 21), (BUSY, 30_000)) for _ in range(n)
    ]
    return [_record(random, offset, at, user) for offset, (at, user) in enumerate(plays)]


def _record(random: Random, offset: int, at: int, user: int) -> RawRecord:
    artist = int(3_000 ** random.random())
    ids = {
        "artistId": artist,
        "albumId": 3 * artist + random.randrange(3),
        "trackId": 20 * artist + random.randrange(20),
    }
    return offset, at, LONG.encode(user), json.dumps(ids).encode()


class Lab:
    """Profiles over one Redis, measured in CPU seconds of this process and Redis."""

    def __init__(self, redis: Redis) -> None:
        self._client = connect(redis.url, 60)

    def cpu(self) -> float:
        """CPU seconds so far."""
        used = self._client.info("cpu")
        return float(time.process_time() + used["used_cpu_user"] + used["used_cpu_sys"])

    def memory(self) -> int:
        """Bytes allocated by Redis."""
        return int(self._client.info("memory")["used_memory"])

    def fold(self, of: Declaration, records: list[RawRecord]) -> tuple[Driver, float, int]:
        """The profile after `records`; CPU seconds and bytes of its state."""
        self._client.flushall()
        driver = Driver(profile_app(of), bootstrap.store_over(self._client, of.name))
        cpu, memory = self.cpu(), self.memory()
        for first in range(0, len(records), TOGETHER):
            driver.feed(0, {TOPIC: records[first : first + TOGETHER]})
        return driver, self.cpu() - cpu, self.memory() - memory

    def read(self, driver: Driver, of: Declaration, user: int) -> float:
        """CPU seconds of one answer at the end of all plays."""
        query = Moment(END_MS) if of.windows else None
        answer: Any = driver.view(of.name, user, query)
        cpu = self.cpu()
        for _ in range(READS[user]):
            answer = driver.view(of.name, user, query)
        assert answer is not None
        return (self.cpu() - cpu) / READS[user]


def measure(home: Path, report: BenchReport) -> None:
    """Measure events first, in rounds of all declarations, then reads."""
    say("folding declared profiles with and without windows")
    home.mkdir(parents=True, exist_ok=True)
    redis = Redis(home, free_port())
    with redis:
        lab, records = Lab(redis), events()
        plain, windowed = declared("plain", "ever"), declared("windowed", "ever", "1h", "7d", "30d")
        rounds = [[lab.fold(of, records)[1:] for of in (plain, windowed)] for _ in range(ROUNDS)]
        ratio = min(with_windows[0] for _, with_windows in rounds) / min(without[0] for without, _ in rounds)
        (_, held), (_, held_with) = rounds[-1]
        size = (held_with - held) / (EVENTS * (1 + len(IDS)))
        report.targets += [
            Target("profile: CPU an event with windows of 1 h, 7 d and 30 d over without", ratio, 1.6, unit="x"),
            Target("profile: memory of a play and measure in a window", size, 20, unit="bytes"),
        ]
        costs: dict[tuple[str, int], float] = {}
        for label in ("ever", "7d", "30d"):
            of = declared(f"over-{label}", label)
            driver, _, _ = lab.fold(of, listeners())
            costs |= {(label, user): lab.read(driver, of, user) for user in READS}
        for label, limit in (("7d", 2), ("30d", 3)):
            ratio = costs[label, QUIET] / costs["ever", QUIET]
            what = f"profile: CPU of an answer over {label} over that of all time, 21 plays"
            report.targets.append(Target(what, ratio, limit, unit="x"))
            what = f"profile: CPU of an answer over {label}, 1,000 plays a day over 21 plays"
            report.targets.append(Target(what, costs[label, BUSY] / costs[label, QUIET], 5, unit="x"))
