"""A state built from the archive, beside the stream's own build from Kafka, and with kills on the way."""

from collections.abc import Iterator, Mapping

from devkit.demo import say
from devkit.lab.archived import LEAST_EVENTS, HistoryLab
from devkit.lab.measures.ingest import Folded, fold
from devkit.lab.targets import Target
from services.metrics.model import APP
from streamstate.verify.check import Check

CPU_RATIO = 1.5

KILL_S = 5
"""Seconds of a build between two kills, so that each kill finds a build."""


def measure(lab: HistoryLab) -> Iterator[Target]:
    """The rows of builds. Leaves a state of all plays, and Kafka without the first half."""
    say("building the state from Kafka")
    from_kafka = fold(lab.cluster, lab.events)
    before = lab.contents()
    lab.keep()
    lab.cut()
    if lab.events >= LEAST_EVENTS:
        yield from _beside(lab, from_kafka, before)
    lab.empty()
    say(f"building the state from the archive with {lab.kills} kills")
    kills = _killed(lab)
    yield Target(f"build: keys that differ after {kills} kills -9", _differing(before, lab.contents()), 0)
    report = Check(APP, lab.settings).run()
    yield Target(f"verify over archive and Kafka: differences of {report.keys:,} keys", len(report.differences), 0)


def _beside(lab: HistoryLab, from_kafka: Folded, before: Mapping[str, object]) -> Iterator[Target]:
    """The rows of a build without kills, beside the `own` build from Kafka."""
    lab.empty()
    say("building the state from the archive")
    from_archive = fold(lab.cluster, lab.events, ARCHIVE=str(lab.archive))
    yield Target("build: keys that differ from the state before", _differing(before, lab.contents()), 0)
    (_, kafka), (_, archive) = from_kafka.rates(), from_archive.rates()
    rates = f"{kafka:,.0f} from Kafka, {archive:,.0f} from the archive"
    yield Target(f"build: CPU over that from Kafka ({rates} a CPU second)", kafka / archive, 1 / CPU_RATIO, unit="x")
    yield Target("build: peak memory over that from Kafka", from_archive.memory / from_kafka.memory, 1.05, unit="x")


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
