"""An archiver that is killed, without its broker, on a full disk, and builds from its archive that are killed."""

import resource
from functools import partial
from pathlib import Path

import pytest

from devkit.cluster.local_cluster import LocalCluster
from services.metrics.model import APP
from streamstate.kafka.producer import producer
from tests.faults.conftest import Trying
from tests.integration.archiver import FULL, Archiving
from tests.integration.kept import PLAYS, Kept
from tests.integration.releases import Releases
from tests.waiting import until

KILLS = 3
RATE = PLAYS // 20
"""Records a second of a build: slow enough for kills on the way."""


def test_f29_an_archiver_is_killed_without_a_broker_or_a_disk(
    trying: Trying, servers: LocalCluster, tmp_path: Path
) -> None:
    with trying("F29", "archiver: kill -9, broker away, disk full: each record once") as run:
        for seed in run.seeds():
            archiving = Archiving(servers, tmp_path / str(seed), f"f29-{seed}")
            archiving.send()
            with archiving.process as process:
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FULL, resource.RLIM_INFINITY))
                until(partial(archiving.says, "File too large"), "a full disk")
            for _ in range(KILLS):
                archiving.process.start()
                archiving.send()
                run.moment()
                archiving.process.kill()
            archiving.process.start()
            servers.kafka.kill()
            run.moment()
            servers.kafka.start()
            archiving.connect()
            archiving.send()
            run.recovered_s.append(archiving.settle())
            run.times += KILLS + 2
            run.differences += archiving.differences()
            archiving.process.stop()


@pytest.mark.quick
def test_f30_builds_from_an_archive_are_killed(trying: Trying, servers: LocalCluster, tmp_path: Path) -> None:
    releases = Releases(servers, servers.deployment, producer(servers.kafka.bootstrap))
    kept = Kept(releases, APP, tmp_path)
    kept.play()
    kept.build()
    before = kept.contents()
    kept.keep()
    with trying("F30", "kill -9 of streams that build from an archive, without the records in Kafka") as run:
        for _ in run.seeds():
            kept.empty()
            for _ in range(KILLS):
                with kept.stream(BUILD_RATE=str(RATE)) as stream:
                    kept.move()
                    run.moment()
                    stream.child.kill()
                    run.times += 1
            kept.build()
            found = kept.contents()
            run.differences += [key for key in before.keys() | found.keys() if before.get(key) != found.get(key)]
            run.differences += map(str, kept.differences())
