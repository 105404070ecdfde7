"""`make change`: folds are changed under load, with half of the plays in the archive only.

Prints a table, and exits with 1 unless all is reached.
"""

import sys
import time
from collections import Counter
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit import topics
from devkit.bench.watchers.listeners import listening
from devkit.change.cycle import FoldChange
from devkit.change.load import CHANGED, NOTIFICATIONS, Load
from devkit.change.outcome import of_cycle, of_messages, of_watchers
from devkit.cluster.local_cluster import LocalCluster
from devkit.cluster.plan import Plan
from devkit.demo import CACHE, say
from devkit.measured import Row, run
from devkit.repeating import repeating
from services.events import LISTENING_EVENTS
from services.profile.settings import HABITS
from streamstate import bootstrap
from streamstate.history.archive.files import Archive
from streamstate.history.archive.segments import covered
from streamstate.profile import SERVICE as PROFILE

SERVICES = ("metrics", "names", "recommendations", PROFILE, NOTIFICATIONS)
CAUGHT_UP_S = 600
TENDED_S = 0.5
BUILD_RATE = 5_000
"""Records a second of a build, beside the reads of the same Redis."""

SKIPS = "  skips: {count: all, where: {durationMs: {lt: 30000}}, over: [24h, ever]}\n"
"""The further measure of the changed profile."""


class ChangeSettings(BaseSettings):
    """The change."""

    events: int = Field(2_000, ge=10, description="listening events a second")
    reads: int = Field(200, ge=1, description="reads a second")
    watchers: int = Field(1_000, ge=0, description="open streams of users without new events")
    backlog: int = Field(200_000, ge=0, description="events before, which the new releases build from")
    pause: float = Field(10.0, ge=0, description="seconds of each step after its command")


def measure(settings: ChangeSettings, home: Path) -> list[Row]:
    """The rows of the table."""
    # In a deployment, no other service's streams share the process.
    plan = Plan(home, CACHE, services=SERVICES, archive=str(home / "archive"), apart=CHANGED)
    cluster = LocalCluster(plan, say)
    load = Load(cluster.kafka.bootstrap, cluster.url, settings.events, settings.reads, settings.watchers)
    try:
        cluster.start_servers()
        load.prepare(settings.backlog)
        cluster.start_services()
        cluster.streams.wait_until(lambda: cluster.caught_up() and cluster.ready(), CAUGHT_UP_S)
        _leave_to_archive(cluster)
        changed = home / "habits.yaml"
        changed.write_text(HABITS.read_text() + SKIPS)
        change = FoldChange(cluster, load, settings.pause)
        with repeating(cluster.tend, TENDED_S), listening(cluster.url, load.quiet) as heard, load.running():
            opened = Counter({user: len(each.events) for user, each in heard.items()})
            rate = {"BUILD_RATE": str(BUILD_RATE)}
            plans = ((PROFILE, {"PROFILE": str(changed), **rate}), (NOTIFICATIONS, {"GRACE_MS": "60000", **rate}))
            cycles = [change.run(service, given) for service, given in plans]
            ended = [*of_watchers(heard, opened, cycles)]
        time.sleep(settings.pause)
        with repeating(cluster.tend, TENDED_S):
            rows = [row for cycle in cycles for row in of_cycle(cycle, change.differences(cycle))]
        known = bootstrap.topics(cluster.kafka.bootstrap, cluster.settings.security)
        return [*rows, *ended, *of_messages(cluster.kafka.bootstrap, known)]
    finally:
        cluster.stop()


def _leave_to_archive(cluster: LocalCluster) -> None:
    """Delete the first half of the plays from Kafka, as soon as the archive has it: builds read both."""
    say("archiving the plays")
    known = bootstrap.topics(cluster.kafka.bootstrap, cluster.settings.security)
    places = [(LISTENING_EVENTS, partition) for partition in range(known.partitions(LISTENING_EVENTS))]
    halves = {place: end // 2 for place, end in known.ends(places).items()}
    archive = Archive(cluster.settings.archive)
    cluster.archiver.wait_until(
        lambda: all(covered(archive.segments(place), 0) >= half for place, half in halves.items()), CAUGHT_UP_S
    )
    topics.cut(cluster.kafka.bootstrap, halves)


if __name__ == "__main__":
    sys.exit(run(ChangeSettings, measure))
