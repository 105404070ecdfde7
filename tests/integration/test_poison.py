"""Invalid records, sent to a deployment of its own: no record stops or spoils the rest."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from devkit import records
from devkit.child_process import Child
from services.clicks.model import USER_CLICKS, USER_REGIONS
from services.events import LISTENING_EVENTS
from services.topics.settings import KeptTopic, WindowIndex
from streamstate.cli.main import app
from streamstate.kafka.dlq.topic import is_halting
from streamstate.kafka.producer import producer
from streamstate.state.redis import RedisStore, connect
from streamstate.state.store import Snapshot
from tests.integration.driving import Driving, headers
from tests.waiting import until

INSTANCE = "stream-0"
DAY_MS = 86_400_000
NANOSECONDS = 1_800_000_000_000_000_000
LONG_MAX = 2**63 - 1
ZERO_OF_GO = -62_135_596_800_000
"""The year 1: a time that a program in Go did not set."""


class Poisoned:
    """Metrics over a topic of its own of one partition, in which Kafka takes any timestamp."""

    def __init__(self, driving: Driving, name: str, service: str = "metrics") -> None:
        self.cluster = driving.cluster
        self.name, self.topic = f"{service}-{name}", f"listening-events-{name}"
        self._service = service
        self._out = producer(self.cluster.kafka.bootstrap)
        self._driving = driving
        self._admin = AdminClient({"bootstrap.servers": self.cluster.kafka.bootstrap, "log_level": 0})
        self._client = connect(self.cluster.redis.url, 5.0)
        self._store = RedisStore(self._client, self.name)
        config = {"message.timestamp.after.max.ms": str(LONG_MAX)}
        new = [NewTopic(self.topic, 1, 1, config=config), NewTopic(f"{self.name}-dlq", 1, 1)]
        for created in self._admin.create_topics(new).values():
            created.result()

    def send(self, *timestamps: int, value: bytes | None = None) -> None:
        for timestamp in timestamps:
            key, event = records.event(7, 1, 1, 1, 1)
            self._out.produce(self.topic, value or event, key, timestamp=timestamp)
        self._out.flush()

    def start(self, **settings: str) -> Child:
        topics = {LISTENING_EVENTS: self.topic} if self._service == "metrics" else {}
        stream = self.cluster.deployment(f"services.{self._service}", self.name, topics, **settings)
        stream.start()
        return stream

    def state(self) -> Snapshot:
        return self._store.read({0: []})[0]

    def reached(self, offset: int) -> None:
        until(lambda: self.state().positions.get(self.topic, 0) == offset, 90, f"offset {offset}")

    def status(self) -> str:
        """The output of `streamstate status` for the deployment."""
        return self._run("status", "metrics")

    def command(self, *arguments: str) -> Any:
        """The JSON of `streamstate` for the deployment."""
        return json.loads(self._run(*arguments))

    def _run(self, *arguments: str) -> str:
        own = {"NAME": self.name, "TOPICS": json.dumps({LISTENING_EVENTS: self.topic})}
        return CliRunner().invoke(app, arguments, env=self._driving.environment(**own)).stdout

    def letters(self) -> list[Message]:
        return self._driving.read(f"{self.name}-dlq")

    def empty(self) -> None:
        for key in self._client.scan_iter(f"{{{self.name}:*"):
            self._client.delete(key)

    def close(self) -> None:
        self.empty()
        self._client.close()
        self._admin.delete_topics([self.topic, f"{self.name}-dlq"])


@pytest.fixture
def deployment(driving: Driving, request: pytest.FixtureRequest) -> Iterator[Poisoned]:
    made = Poisoned(driving, request.node.name.replace("_", "-")[:60])
    yield made
    made.close()


def refused(deployment: Poisoned) -> set[tuple[bytes, bytes]]:
    """Stage and offset of the dead letters that are committed."""
    found = [headers(letter) for letter in deployment.letters() if not is_halting(letter)]
    return {(of["x-stage"], of["__streams.errors.offset"]) for of in found}


def test_records_from_the_future_and_from_before_1970(deployment: Poisoned) -> None:
    """Such timestamps would let every window and history expire; Spark cannot even read timestamps in nanoseconds.

    Before 1970, Spark reads it by another calendar.
    """
    now = int(time.time() * 1_000)
    deployment.send(now, now + 30 * DAY_MS, now + 1, NANOSECONDS, now + 2, NANOSECONDS, now + 3, ZERO_OF_GO, -2)
    expected = {(b"timestamp", b"%d" % offset) for offset in (1, 3, 5, 7, 8)}
    stream = deployment.start()
    try:
        deployment.reached(9)
        assert deployment.state().times == {deployment.topic: now + 3}
        assert refused(deployment) == expected
        deployment.send(now + 4, NANOSECONDS, now + 5)
        deployment.reached(12)
        assert deployment.state().counters["dead_letters"] == 6
    finally:
        stream.stop()
    deployment.empty()
    stream = deployment.start(FUTURE_MS=str(60 * DAY_MS))
    try:
        deployment.reached(12)
        assert deployment.state().times == {deployment.topic: now + 5}
        assert refused(deployment) == {*expected, (b"timestamp", b"10")}
        assert deployment.state().counters["dead_letters"] == 6
    finally:
        stream.stop()


def test_a_clock_that_is_ahead_makes_no_other_record_late(driving: Driving) -> None:
    """Stream time is the greatest timestamp of the partition: one device would end the windows of all others."""
    now = int(time.time() * 1_000)
    deployment = Poisoned(driving, "ahead", "topics")
    kept = KeptTopic(
        topic=deployment.topic,
        key="long",
        value="json",
        windows=WindowIndex(field="artistId", size_ms=60_000, grace_ms=60_000, retention_ms=DAY_MS),
    )
    deployment.send(now, now + 50 * 60_000, *range(now + 1, now + 21))
    stream = deployment.start(KEPT=f"[{kept.model_dump_json(exclude_none=True)}]")
    try:
        deployment.reached(22)
        assert deployment.state().counters.get("late_records", 0) == 0
        assert refused(deployment) == {(b"timestamp", b"1")}
    finally:
        stream.stop()
        deployment.close()


def test_a_topic_of_broken_records_stops_the_stream_before_it_is_dead_lettered(deployment: Poisoned) -> None:
    now = int(time.time() * 1_000)
    deployment.send(*[now] * 500)
    stream = deployment.start()
    try:
        deployment.reached(500)
        deployment.send(*[now] * 400, value=b"{")
        until(lambda: "roll back the release or fix the decoder" in stream.tail(50), 90, "the stream to stop")
        assert stream.alive
        until(lambda: "roll back the release" in deployment.status(), 30, "status to say so too")
        assert f"{INSTANCE} does not fold" in deployment.status()
        listed = deployment.command("dlq", "list", "metrics", "--json")
        assert listed["by_reason"]["not committed: DecodeError"] >= 3
        replay = deployment.command("dlq", "replay", "metrics", "--dry-run", "--json")
        assert replay["left_out"]["of a record still to be folded"] >= 3
    finally:
        stream.stop()
    assert 500 <= deployment.state().positions[deployment.topic] <= 600
    assert len(refused(deployment)) <= 100
    stream = deployment.start(DEAD_LETTER_SHARE="1")
    try:
        deployment.reached(900)
        assert len(refused(deployment)) == 400
        [verified] = deployment.command("verify", "metrics", "--json")
        assert (verified["faults"], verified["differences"]) == ([], [])
    finally:
        stream.stop()


def test_a_sum_beyond_what_is_exact_is_a_dead_letter_and_no_difference(driving: Driving) -> None:
    # In a region of its own, whose sum is 0.
    driving.out.produce(USER_REGIONS, b"poisoned", b"poison", timestamp=1_750_000_000_000)
    driving.out.flush()
    driving.settle()
    for _ in range(3):
        driving.out.produce(USER_CLICKS, b"%d" % 2**53, b"poison", timestamp=1_750_000_000_000)
    driving.out.flush()
    driving.settle()
    letters = [letter for letter in driving.read("clicks-dlq") if headers(letter)["x-stage"] == b"fold"]
    assert [letter.value() for letter in letters] == [b"%d" % 2**53] * 2
    assert headers(letters[0])["__streams.errors.exception"] == b"OverflowError"
    assert driving.differences("clicks") == []
