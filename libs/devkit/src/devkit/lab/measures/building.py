"""A state built from the archive, beside the stream's own build from Kafka, and with kills on the way."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from devkit.demo import say
from devkit.lab import cpu
from devkit.lab.archived import LEAST_EVENTS, LONGEST_S, HistoryLab
from devkit.lab.targets import Target
from services.metrics.model import APP
from streamstate.verify.check import Check
from streamstate.verify.replay import recounted

CPU_RATIO = 1.5
_LOOK_S = 0.4

KILL_S = 5
"""Seconds of a build between two kills, so that each kill finds a build."""


@dataclass(frozen=True)
class Build:
    """marks: folded offsets, with the usage until then. memory: of the stream, peak bytes."""

    marks: Sequence[tuple[int, cpu.Usage]]
    memory: int

    def rate(self) -> float:
        """Events a CPU second of stream and Redis in the second half, without the start of the processes."""
        folded, last = self.marks[-1]
        half, middle = next(mark for mark in self.marks if 2 * mark[0] >= folded)
        return (folded - half) / (sum(last.cpu.values()) - sum(middle.cpu.values()))


def measure(lab: HistoryLab) -> Iterator[Target]:
    """The rows of builds. Leaves a state of all plays, and Kafka without the first half."""
    say("building the state from Kafka")
    own = _built(lab, archive="")
    before = lab.contents()
    lab.keep()
    lab.cut()
    if lab.events >= LEAST_EVENTS:
        yield from _beside(lab, own, before)
    lab.empty()
    say(f"building the state from the archive with {lab.kills} kills")
    kills = _killed(lab)
    yield Target(f"build: keys that differ after {kills} kills -9", _differing(before, lab.contents()), 0)
    found = Check(recounted(APP), lab.settings).run()
    yield Target(f"verify over archive and Kafka: differences of {found.keys:,} keys", len(found.differences), 0)


def _beside(lab: HistoryLab, own: Build, before: Mapping[str, object]) -> Iterator[Target]:
    """The rows of a build without kills, beside the `own` build from Kafka."""
    lab.empty()
    say("building the state from the archive")
    ours = _built(lab, archive=str(lab.archive))
    yield Target("build: keys that differ from the state before", _differing(before, lab.contents()), 0)
    rates = f"{own.rate():,.0f} from Kafka, {ours.rate():,.0f} from the archive"
    yield Target(f"build: CPU over that from Kafka ({rates} a CPU second)", own.rate() / ours.rate(), 1 / CPU_RATIO)
    yield Target("build: peak memory over that from Kafka", ours.memory / own.memory, 1.05)


def _built(lab: HistoryLab, archive: str) -> Build:
    marks: list[tuple[int, cpu.Usage]] = []
    memory = [0]

    def done() -> bool:
        if (folded := lab.states.folded()) > (marks[-1][0] if marks else 0):
            marks.append((folded, meter.read()))
        # Requests without pause take CPU time from the stream.
        time.sleep(_LOOK_S)
        memory.append(cpu.resident(stream.pid))
        return folded >= lab.events

    with lab.cluster.of_services([APP.name], ARCHIVE=archive) as stream:
        meter = cpu.Meter({"stream": stream.pid, "Redis": lab.cluster.redis.pid})
        stream.wait_until(done, LONGEST_S)
    say(f"{lab.events:,} events: {marks[-1][1]}")
    return Build(marks, max(memory))


def _killed(lab: HistoryLab) -> int:
    """Build with kills -9 of the stream, evenly over the build; the number of kills."""
    rate = str(max(1, lab.events // (KILL_S * (lab.kills + 1))))
    for kill in range(lab.kills):
        with lab.building(lab.events * (kill + 1) // (lab.kills + 1), BUILD_RATE=rate) as stream:
            stream.kill()
    with lab.building(lab.events):
        return lab.kills


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> int:
    """The number of keys with different values, or only in one state."""
    return sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())
