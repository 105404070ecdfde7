"""`make change`: folds are changed under load, with half of the plays in the archive only.

The commands are stage, wait, diff, promote, back, promote and drop; measured is what clients see of them.
"""

import time
from collections import Counter
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit import topics
from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab.listeners import listening
from devkit.lab.measures.releases import (
    CHANGED,
    NOTIFICATIONS_SERVICE,
    PROFILE,
    FoldChange,
    Load,
    of_messages,
    of_watchers,
)
from devkit.lab.servers import CAUGHT_UP_S, servers, settle
from devkit.lab.targets import Report, run
from devkit.repeating import repeating
from services.events import LISTENING_EVENTS
from services.profile.settings import HABITS
from streamstate import bootstrap
from streamstate.history.archive.files import Archive
from streamstate.history.archive.segments import covered
from streamstate.profile import SERVICE

SERVICES = ("metrics", "names", "recommendations", SERVICE, NOTIFICATIONS_SERVICE)
TENDED_S = 0.5
BUILD_RATE = {"BUILD_RATE": "5000"}
"""Records a second of a build, beside the reads of the same Redis."""

SKIPS = "  skips: {count: all, where: {durationMs: {lt: 30000}}, over: [24h, ever]}\n"
"""The further measure of the changed profile."""


class ChangeSettings(BaseSettings):
    """The change."""

    events: int = Field(2_000, ge=50, description="listening events a second")
    reads: int = Field(200, ge=1, description="reads a second")
    watchers: int = Field(1_000, ge=0, description="open streams of users without new events")
    backlog: int = Field(200_000, ge=0, description="events before, which the new releases build from")
    pause: float = Field(10.0, ge=0, description="seconds of each step after its command")


def measure(settings: ChangeSettings, home: Path, report: Report) -> None:
    """Change a profile and a fold, one after the other."""
    changed = home / "habits.yaml"
    changed.write_text(HABITS.read_text() + SKIPS)
    changes = ((PROFILE, {"PROFILE": str(changed)}), (NOTIFICATIONS_SERVICE, {"GRACE_MS": "60000"}))
    # In a deployment, no other service's streams share the process.
    with servers(home, services=SERVICES, archive=str(home / "archive"), apart=CHANGED) as cluster:
        load = Load(cluster.kafka.bootstrap, cluster.url, settings.events, settings.reads, settings.watchers)
        load.prepare(settings.backlog)
        cluster.start_services()
        settle(cluster)
        _leave_to_archive(cluster)
        change = FoldChange(cluster, load, settings.pause)
        with repeating(cluster.tend, TENDED_S), listening(cluster.url, load.quiet) as heard, load.running():
            opened = Counter({user: len(watcher.events) for user, watcher in heard.items()})
            cycles = [change.run(service, own | BUILD_RATE) for service, own in changes]
            report.targets += of_watchers(heard, opened, cycles)
        time.sleep(settings.pause)
        with repeating(cluster.tend, TENDED_S):
            for cycle in cycles:
                report.targets += cycle.targets(change.differences(cycle))
        metadata = bootstrap.topics(cluster.kafka.bootstrap, cluster.settings.security)
        report.targets += of_messages(cluster.kafka.bootstrap, metadata)


def _leave_to_archive(cluster: LocalCluster) -> None:
    """Delete the first half of the plays from Kafka, as soon as the archive has it: builds read both."""
    say("archiving the plays")
    metadata = bootstrap.topics(cluster.kafka.bootstrap, cluster.settings.security)
    places = [(LISTENING_EVENTS, partition) for partition in range(metadata.partitions(LISTENING_EVENTS))]
    halves = {place: end // 2 for place, end in metadata.ends(places).items()}
    archive = Archive(cluster.settings.archive)
    cluster.archiver.wait_until(
        lambda: all(covered(archive.segments(place), 0) >= half for place, half in halves.items()), CAUGHT_UP_S
    )
    topics.cut(cluster.kafka.bootstrap, halves)


if __name__ == "__main__":
    raise SystemExit(run(ChangeSettings, measure))
