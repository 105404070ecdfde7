"""The archiver, as a process beside a real broker."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from devkit import topics
from devkit.cluster.local_cluster import LocalCluster
from streamstate.erasure.deletions import Bound, DeletionRecord
from streamstate.erasure.topic import DeletionTopic
from streamstate.history.archive.segments import Segment
from streamstate.keys import partition_of
from tests.integration.archiver import DELETIONS, PARTITIONS, Archiving
from tests.waiting import until


@pytest.fixture
def archiving(servers: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Archiving]:
    made = Archiving(servers, tmp_path, request.node.name.replace("_", "-"))
    yield made
    made.process.stop()


def test_each_record_is_archived_once_through_kills(archiving: Archiving) -> None:
    for _ in range(2):
        archiving.process.start()
        archiving.send()
        until(partial(archiving.has_more_than, archiving.files()), "a file")
        archiving.process.kill()
        archiving.send()
    archiving.process.start()
    archiving.wait()


def test_commands_compare_and_compact_the_archive(archiving: Archiving) -> None:
    topics.create(archiving.topics.bootstrap, {DELETIONS: {"cleanup.policy": "compact"}}, 1)
    with archiving.process:
        for _ in range(3):
            archiving.send(300)
            archiving.wait()
    files = archiving.files()
    assert files > PARTITIONS
    listed = json.loads(archiving.command("list", "--json").stdout)
    assert [each["gaps"] for each in listed] == [[], []]
    compared = archiving.command("verify", "--all", "--json")
    assert compared.exit_code == 0, compared.output
    assert sum(each["compared"] for each in json.loads(compared.stdout)) == 900
    key = b"7"
    partition = partition_of(key, PARTITIONS)
    bound = Bound(archiving.topics.origin(archiving.topic).id, key, listed[partition]["end"])
    deletions = DeletionTopic(DELETIONS, archiving.topics)
    deletions.write([DeletionRecord("7", "any", partition, {archiving.topic: bound})])
    compacted = archiving.command("compact", "--json")
    assert compacted.exit_code == 0, compacted.output
    assert [each["left_out"] for each in json.loads(compacted.stdout)] == [
        3 * (p == partition) for p in range(PARTITIONS)
    ]
    assert archiving.files() == PARTITIONS
    assert archiving.command("verify", "--all").exit_code == 0
    archiving.archive.write((archiving.topic, 0), Segment(10**6, 10**6), bound.topic_id, [])
    failed = archiving.command("verify")
    assert failed.exit_code == 1
    assert f"the offsets {listed[0]['end']} to 999999 lack" in failed.output
    archiving.archive.write((archiving.topic, 0), Segment(10**7, 10**7), "another", [])
    assert "the topic was created anew" in " ".join(archiving.command("verify").output.split())
