"""An archiver, as a process over a topic of its own beside a real broker."""

import json
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from typer.testing import CliRunner, Result
from urllib3.exceptions import HTTPError

from devkit import topics
from devkit.cluster.local_cluster import LocalCluster, get, variables
from devkit.servers.child_process import LOCALHOST, Child, free_port
from streamstate import bootstrap
from streamstate.cli.main import app
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import batch, row
from streamstate.history.archive.segments import covered
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.producer import Outgoing, producer, send_all, transaction
from tests.waiting import now_s, until

DELETIONS = "archived-deletions"
PARTITIONS = 2
RECORDS = 2_000
FULL = 65_536
"""Bytes of a file that fit on a full disk."""


class Archiving:
    """An archiver over a topic of its own."""

    def __init__(self, servers: LocalCluster, home: Path, name: str) -> None:
        home.mkdir(exist_ok=True)
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
        self.history = TopicHistory(self.topics)

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

    def settle(self) -> float:
        """Wait until the archive has all; the seconds."""
        started = now_s()
        until(self.has_all, "the archive to have all")
        return now_s() - started

    def wait(self) -> None:
        """Until the archive has all, and each record once."""
        self.settle()
        assert self.differences() == []

    def differences(self) -> list[str]:
        """The rows in the archive and not in Kafka, or in Kafka and not in the archive, by count."""
        batches = [rows for p in range(PARTITIONS) for rows in self.archive.read((self.topic, p), 0)]
        kept = Counter(repr(each) for rows in batches for each in rows.to_pylist())
        records = batch([row(message) for message in self.history.whole(self.topic)])
        sent = Counter(map(repr, records.to_pylist()))
        return [*(kept - sent), *(sent - kept)]

    def command(self, *words: str) -> Result:
        settings = {"KAFKA": self.topics.bootstrap, "ARCHIVE": self.archive.uri, "DELETIONS": DELETIONS}
        return CliRunner().invoke(app, ["archive", *words], env=variables(settings))

    def has_more_than(self, files: int) -> bool:
        return self.files() > files

    def files(self) -> int:
        return sum(len(self.archive.files((self.topic, partition))) for partition in range(PARTITIONS))
