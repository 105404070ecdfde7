"""Two releases of a service on a real Kafka, Redis and Spark: outputs are published once, whatever is killed."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Message

from devkit.local_cluster import variables
from streamstate.kafka.dlq.topic import cause_of
from streamstate.keys import Marker
from streamstate.state.redis import RedisStore, connect
from tests.integration.emitting.model import APP, IN, OUT, TOTALS
from tests.integration.releases import PARTITIONS, Releases
from tests.waiting import until

SECOND = "emitting-2"
KEYS = [f"key-{number}" for number in range(12)]
WRITES = 2
"""Of a promotion."""

KILLED = """
import os, signal, sys
from streamstate.cli import main
from streamstate.releases.pointer import Pointer

number, after = int(sys.argv.pop(1)), sys.argv.pop(1) == "after"
writes, replace = [], Pointer.replace

def killed(self, *records):
    writes.append(1)
    if len(writes) == number and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(self, *records)
    if len(writes) == number:
        os.kill(os.getpid(), signal.SIGKILL)

Pointer.replace = killed
main.main()
"""


class Feed:
    """A producer that sends records without pause, some of them malformed."""

    def __init__(self, releases: Releases) -> None:
        self._out = releases.out
        self._ended = threading.Event()
        self.sent = Counter[str]()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self._out.flush()

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.004):
            key, number = KEYS[number % len(KEYS)], number + 1
            malformed = number % 50 == 0
            self._out.produce(IN, b"broken" if malformed else b"fine", key.encode())
            self.sent["" if malformed else key] += 1
            self._out.poll(0)


class Command:
    """`streamstate` for the service."""

    def __init__(self, releases: Releases) -> None:
        settings = releases.cluster.settings
        own = {"KAFKA": settings.kafka, "REDIS": settings.redis, "PACKAGE": "tests.integration.emitting"}
        self._environment = {**os.environ, **variables(own)}
        self._redis: Any = connect(settings.redis, 5.0)

    def run(self, *arguments: str, **settings: str) -> Any:
        """The JSON of a command that succeeds."""
        environment = {**self._environment, **variables(settings)}
        argv = [sys.executable, "-m", "streamstate.cli.main", *arguments, "--json"]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    def without_room(self, *arguments: str) -> None:
        """The command, with a Redis that is too full for another state."""
        used = self._redis.info("memory")["used_memory"]
        self._redis.config_set("maxmemory", int(1.05 * used))
        try:
            argv = [sys.executable, "-m", "streamstate.cli.main", *arguments]
            done = subprocess.run(argv, env=self._environment, capture_output=True, text=True, timeout=120, check=False)
        finally:
            self._redis.config_set("maxmemory", 0)
        assert done.returncode == 1
        assert "raise maxmemory first" in done.stderr

    def killed(self, write: int, when: str, *arguments: str) -> None:
        """The command, killed before or after one of its writes."""
        argv = [sys.executable, "-c", KILLED, str(write), when, *arguments]
        assert subprocess.run(argv, env=self._environment, timeout=120, check=False).returncode == -9


@pytest.fixture
def command(releases: Releases) -> Command:
    releases.create(IN, OUT, TOTALS, APP.dead_letters)
    return Command(releases)


def causes(messages: list[Message]) -> Counter[tuple[int, int]]:
    """How often each record was the cause of an output."""
    found = [Marker.from_headers(message.headers()) for message in messages]
    return Counter((marker.partition, marker.offset) for marker in found if marker)


def letters(messages: list[Message]) -> Counter[tuple[int, int]]:
    return Counter(cause[1:] for message in messages if (cause := cause_of(message)))


def test_outputs_are_published_once_through_killed_promotions(releases: Releases, command: Command) -> None:
    # Refused by the first release, and fine by the settings of the second.
    releases.out.produce(IN, b"fine", b"key-0", 0, timestamp=int((time.time() + 1_800) * 1_000))
    releases.out.flush()
    feed, package = Feed(releases), "tests.integration.emitting"
    old = releases.make(package, "emitting", {}, FUTURE_MS="60000")
    with feed.running(), old:
        until(lambda: letters(releases.read(APP.dead_letters)), 60, "a dead letter")
        command.run("stage", "emitting", "--name", SECOND)
        new = releases.make(package, SECOND, {}, RELEASE_OF="emitting", FUTURE_MS=str(10**12), ADVERTISE="127.0.0.1:1")
        with new:
            command.run("wait", "emitting", "--timeout", "60")
            for write in range(1, WRITES + 1):
                for when in ("before", "after"):
                    for order, live in (("promote", SECOND), ("back", "emitting")):
                        arguments = order, "emitting", "--without-gateway"
                        command.killed(write, when, *arguments)
                        answer = command.run("promote", "emitting", live, "--without-gateway")
                        assert answer["live"] == live
            answer = command.run("promote", "emitting", "--without-gateway")
            assert answer["seconds"] < 5
            until(lambda: not command.run("releases", "emitting")[0]["owes"], 60, "the first release to owe nothing")
            check(releases, command, feed)
            # At the end: a commit that Redis refuses publishes its records again.
            command.without_room("stage", "emitting", "--name", "emitting-3")
    command.run("drop", "emitting", "emitting", "--yes")
    assert [of["release"] for of in command.run("releases", "emitting")] == [SECOND]


def check(releases: Releases, command: Command, feed: Feed) -> None:
    """All outputs, of the records so far, are there once; the states equal their recounts."""
    stores = [RedisStore(connect(releases.cluster.redis.url, 5.0), name) for name in ("emitting", SECOND)]
    # Outputs are published before the commit of their records.
    committed = [store.read({partition: [] for partition in range(PARTITIONS)}) for store in stores]
    bad = letters(releases.read(APP.dead_letters))
    published = causes(releases.read(OUT))
    assert set(bad.values()) == set(published.values()) == {1}
    assert not bad.keys() & published.keys()
    for partition in range(PARTITIONS):
        end = min(snapshots[partition].positions[IN] for snapshots in committed)
        offsets = sorted(offset for p, offset in (*bad, *published) if p == partition and offset < end)
        assert offsets == list(range(end))
    assert (0, 0) in bad
    assert command.run("verify", "emitting")[0]["differences"] == []
    second = {"NAME": SECOND, "RELEASE_OF": "emitting"}
    assert command.run("verify", "emitting", **second)[0]["differences"] == []
    before = Counter(feed.sent)

    def totals() -> dict[str, int]:
        return {(each.key() or b"").decode(): int(each.value() or b"0") for each in releases.read(TOTALS)}

    until(lambda: all(totals().get(key, 0) >= before[key] - 1 for key in KEYS), 30, "the totals of the second release")
