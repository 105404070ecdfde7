"""The archiver, as a process beside a real broker: killed, without a broker, on a full disk."""

import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException
from typer.testing import CliRunner, Result
from urllib3.exceptions import HTTPError

from devkit import topics
from devkit.child_process import LOCALHOST, Child, free_port
from devkit.local_cluster import LocalCluster, answers, get, variables
from streamstate import bootstrap
from streamstate.archive.files import Archive
from streamstate.archive.rows import batch, row
from streamstate.archive.segments import Segment, covered
from streamstate.cli.main import app
from streamstate.erasure.deletions import Bound, DeletionRecord
from streamstate.erasure.topic import DeletionTopic
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.producer import Outgoing, producer, send_all, transaction
from streamstate.keys import partition_of
from tests.waiting import until

DELETIONS = "archived-deletions"
PARTITIONS = 2
RECORDS = 2_000
FULL = 65_536
"""Bytes of a file that fit on the full disk."""


class Archiving:
    """An archiver over a topic of its own."""

    def __init__(self, servers: LocalCluster, home: Path, name: str) -> None:
        self.topic = f"archived-{name}"
        self.archive = Archive(str(home / "archive"))
        self.status = f"{LOCALHOST}:{free_port()}"
        kafka = servers.kafka.bootstrap
        topics.create(kafka, {self.topic: {}}, PARTITIONS)
        self.kafka = servers.settings
        self.connect()
        self.out = producer(kafka, transactional_id=self.topic)
        settings = {
            "KAFKA": kafka,
            "ARCHIVE": self.archive.uri,
            "ARCHIVE_TOPICS": json.dumps([self.topic]),
            "ARCHIVE_SECONDS": "0.3",
            "ARCHIVE_GROUP": self.topic,
            "STATUS_PORT": self.status.rpartition(":")[2],
        }
        argv = [sys.executable, "-m", "services.archive"]
        self.process = Child("archiver", argv, home / "archiver.log", variables(settings))

    def connect(self) -> None:
        """Anew: after a restart of the broker, a client may need minutes to learn of the new leaders."""
        self.topics = bootstrap.topics(self.kafka.kafka, self.kafka.security)
        self.history = TopicHistory(self.kafka.kafka, self.topics)

    def says(self, text: str) -> bool:
        """Whether `/readyz` answers with `text`."""
        with suppress(HTTPError):
            return text in str(get(f"http://{self.status}/readyz"))
        return False

    def send(self, count: int = RECORDS) -> None:
        """A transaction: its marker is an offset without a record."""
        records: list[Outgoing] = [(self.topic, str(n).encode(), os.urandom(100), [("n", b"1")]) for n in range(count)]
        with transaction(self.out):
            send_all(self.out, records)

    def has_all(self) -> bool:
        """Whether the archive has all that Kafka has at present."""
        places = [(self.topic, partition) for partition in range(PARTITIONS)]
        # A broker that has just started may refuse the first request.
        with suppress(KafkaException):
            # Markers of a committed transaction may come later: the last stable offset is still before the records.
            ends = self.topics.high_watermarks(places)
            return all(covered(self.archive.segments(at), 0) == end for at, end in ends.items())
        return False

    def wait(self) -> None:
        """Until the archive has all, then compare with Kafka: each record once."""
        until(self.has_all, 60, "the archive to have all")
        kept = pa.Table.from_batches(
            rows for partition in range(PARTITIONS) for rows in self.archive.read((self.topic, partition), 0)
        )
        sent = batch([row(message) for message in self.history.whole(self.topic)])
        assert kept.combine_chunks() == pa.table(sent).replace_schema_metadata(kept.schema.metadata)

    def command(self, *words: str) -> Result:
        settings = {"KAFKA": self.history.bootstrap, "ARCHIVE": self.archive.uri, "DELETIONS": DELETIONS}
        return CliRunner().invoke(app, ["archive", *words], env=variables(settings))

    def has_more_than(self, files: int) -> bool:
        return self.files() > files

    def files(self) -> int:
        return sum(len(self.archive.files((self.topic, partition))) for partition in range(PARTITIONS))


@pytest.fixture
def archiving(servers: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Archiving]:
    made = Archiving(servers, tmp_path, request.node.name.replace("_", "-"))
    yield made
    made.process.stop()


def test_each_record_is_archived_once_through_kills(archiving: Archiving) -> None:
    for _ in range(5):
        archiving.process.start()
        archiving.send()
        until(partial(archiving.has_more_than, archiving.files()), 30, "a file")
        archiving.process.kill()
        archiving.send()
    archiving.process.start()
    archiving.wait()


def test_a_restarted_broker_interrupts_nothing_for_good(archiving: Archiving, servers: LocalCluster) -> None:
    archiving.process.start()
    archiving.send()
    archiving.wait()
    servers.kafka.kill()
    try:
        until(lambda: archiving.says("not archiving"), 40, "a fault")
    finally:
        servers.kafka.start()
    archiving.connect()
    archiving.send()
    archiving.wait()
    until(lambda: answers(f"http://{archiving.status}/readyz"), 30, "readiness")


def test_a_full_disk_delays_records(archiving: Archiving) -> None:
    archiving.send()
    with archiving.process as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FULL, resource.RLIM_INFINITY))
        until(lambda: archiving.says("File too large"), 30, "a fault")
        assert not archiving.has_all()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        archiving.wait()
        until(lambda: answers(f"http://{archiving.status}/readyz"), 30, "readiness")
        assert list(Path(archiving.archive.uri).rglob(".*")) == []


def test_commands_compare_and_compact_the_archive(archiving: Archiving) -> None:
    topics.create(archiving.history.bootstrap, {DELETIONS: {"cleanup.policy": "compact"}}, 1)
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
    kafka, security = archiving.history.bootstrap, archiving.topics.security
    deletions = DeletionTopic(DELETIONS, kafka, archiving.topics, security)
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
