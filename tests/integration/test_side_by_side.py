"""Two releases of a service on a real Kafka, Redis and Spark: outputs are published once, whatever is killed."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
import urllib3
from confluent_kafka import Message
from urllib3.exceptions import HTTPError

from devkit.cluster.local_cluster import LocalCluster, answers
from devkit.repeating import repeating
from devkit.servers.child_process import LOCALHOST, free_port
from streamstate.cli.releases.beside import RELEASE
from streamstate.kafka.admin import Topics
from streamstate.kafka.dlq.topic import cause_of
from streamstate.keys import Marker
from streamstate.releases import file
from streamstate.releases.pointer import Pointer
from streamstate.releases.record import switched
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.redis_reads import live_key
from tests.integration.emitting.model import APP, IN, OUT, TOTALS
from tests.integration.releases import PARTITIONS, Command, Releases
from tests.waiting import PATIENCE_S, REQUEST_S, now_ms, pause, until, until_equal

PACKAGE, SECOND = "tests.integration.emitting", "emitting-2"
KEYS = [f"key-{number}" for number in range(12)]
BETWEEN = ((1, "after"), (2, "after"), (3, "before"), (3, "after"))
"""The writes of a promotion: the answers, the begin of the hand-over, its cuts."""


class Feed:
    """A producer that sends records to `topic` without pause, some of them malformed."""

    def __init__(self, releases: Releases, topic: str = IN) -> None:
        self._out = releases.out
        self._topic = topic
        self._ended = threading.Event()
        self.sent = Counter[str]()

    @contextmanager
    def running(self) -> Iterator[None]:
        self._ended.clear()
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
            self._out.produce(self._topic, b"broken" if malformed else b"fine", key.encode())
            self.sent["" if malformed else key] += 1
            self._out.poll(0)


@pytest.fixture
def command(releases: Releases) -> Command:
    releases.create(IN, OUT, TOTALS, APP.dead_letters)
    return Command(releases, PACKAGE)


def causes(messages: list[Message]) -> Counter[tuple[int, int]]:
    """How often each record was the cause of an output."""
    found = [Marker.from_headers(message.headers()) for message in messages]
    return Counter((marker.partition, marker.offset) for marker in found if marker)


def letters(messages: list[Message]) -> Counter[tuple[int, int]]:
    return Counter(cause[1:] for message in messages if (cause := cause_of(message)))


def test_outputs_are_published_once_through_killed_promotions(releases: Releases, command: Command) -> None:
    # Refused by the first release, and fine by the settings of the second.
    releases.out.produce(IN, b"fine", b"key-0", 0, timestamp=now_ms() + 1_800_000)
    releases.out.flush()
    feed = Feed(releases)
    old = releases.make(PACKAGE, "emitting", {}, FUTURE_MS="60000")
    with feed.running(), old:
        until(lambda: letters(releases.read(APP.dead_letters)), "a dead letter")
        until_equal(lambda: command.run("releases", "emitting")[0]["state"], "ready", "the first release")
        command.run("stage", "emitting", "--name", SECOND)
        new = releases.make(PACKAGE, SECOND, {}, RELEASE_OF="emitting", FUTURE_MS=str(10**12), ADVERTISE="127.0.0.1:1")
        with new:
            command.run("wait", "emitting", "--timeout", "60")
            for (write, when), (order, live) in product(BETWEEN, (("promote", SECOND), ("back", "emitting"))):
                command.killed(write, when, order, "emitting", "--without-gateway")
                answer = command.run("promote", "emitting", live, "--without-gateway")
                assert answer["live"] == live
            for order in ("promote", "back", "promote"):
                command.run(order, "emitting", "--without-gateway")
            for order in ("status", "verify"):
                assert [of["service"] for of in command.run(order, "emitting")] == [SECOND]
            check(releases, command, feed, ("emitting", SECOND))
            assert (0, 0) in letters(releases.read(APP.dead_letters))
            # At the end: a commit that Redis refuses publishes its records again.
            command.without_room("stage", "emitting", "--name", "emitting-3")
            assert "emitting has a record of its releases" in command.refused("adopt", "emitting", SECOND)
    drop_is_refused_after_a_promotion_meanwhile(releases, command)
    a_lost_record_is_made_anew(releases, command, feed, (old, new))
    command.run("drop", "emitting", "emitting", "--yes")
    assert [of["release"] for of in command.run("releases", "emitting")] == [SECOND]
    a_release_is_built_anew_from_an_empty_redis(releases, command, feed, new)


def drop_is_refused_after_a_promotion_meanwhile(releases: Releases, command: Command) -> None:
    """While the command asks, the release that it deletes is made live."""
    client = connect(releases.cluster.redis.url, 5.0)
    pointer, keys = Pointer(client, "emitting"), set(client.scan_iter("{emitting:*"))

    def switch(live: str) -> None:
        record = pointer.read()
        assert record
        pointer.replace(record, switched(record, live))

    with patch("streamstate.cli.releases.drop.agree", lambda *_, **__: switch("emitting")):
        assert "another command changed the releases meanwhile" in command.refused("drop", "emitting", "emitting")
    assert set(client.scan_iter("{emitting:*")) == keys
    switch(SECOND)


def a_lost_record_is_made_anew(
    releases: Releases, command: Command, feed: Feed, streams: tuple[AbstractContextManager[object], ...]
) -> None:
    """The state is there, and its record of the releases is not."""
    pointer = Pointer(client := connect(releases.cluster.redis.url, 5.0), "emitting")
    lost = pointer.read()
    assert lost
    client.delete(live_key("emitting"))
    assert "after a loss of the record `streamstate adopt emitting RELEASE`" in command.refused("back", "emitting")
    positions = {name: sum(positions_of(releases, name, IN)) for name in ("emitting", SECOND)}
    adopted = command.run("adopt", "emitting", SECOND, "--yes")
    assert (adopted["live"], adopted["releases"]) == (SECOND, positions)
    assert adopted["number"] > lost.number
    with feed.running(), ExitStack() as running:
        for stream in streams:
            running.enter_context(stream)
        pause(1)
        until(folded(releases, IN, ("emitting", SECOND)), "both releases to go on")
        check(releases, command, feed, ("emitting", SECOND))


def a_release_is_built_anew_from_an_empty_redis(
    releases: Releases, command: Command, feed: Feed, stream: AbstractContextManager[object]
) -> None:
    """The record of the promotion is gone with the state, and the first release is dropped."""
    client, published = connect(releases.cluster.redis.url, 5.0), len(releases.read(OUT))
    client.delete(*client.scan_iter("{emitting:*"), *client.scan_iter(f"{{{SECOND}:*"))
    assert command.run("adopt", "emitting", SECOND, "--yes")["releases"] == {SECOND: 0}
    with stream:
        until(folded(releases, IN, (SECOND,)), "the state to be built")
        assert command.run("releases", "emitting")[0]["state"] == "ready"
    counts = RedisStore(client, SECOND).read({p: [Fields("counts")] for p in range(PARTITIONS)}).values()
    fine = Counter({key: count for key, count in feed.sent.items() if key})
    assert sum((Counter(snapshot.values[0]) for snapshot in counts), Counter()) == fine
    assert len(releases.read(OUT)) - published == fine.total()


NAMES = "kills", "kills-2"
TOPICS = {topic: topic.replace("emitting", "kills") for topic in (IN, OUT, TOTALS, APP.dead_letters)}


class Serving:
    """Streams and APIs of two releases, and a gateway that answers from the live one."""

    def __init__(self, releases: Releases, home: Path) -> None:
        self.at = {name: f"{LOCALHOST}:{free_port()}" for name in (*NAMES, "gateway")}
        self.url = f"http://{self.at['gateway']}"
        first, second = NAMES
        settings = releases.cluster.settings
        servers = {"KAFKA": settings.kafka, "REDIS": settings.redis}
        beside = {second: {"RELEASE_OF": first}}
        self.streams = [
            releases.make(PACKAGE, name, TOPICS, ADVERTISE=self.at[name], **beside.get(name, {})) for name in NAMES
        ]
        apis = []
        for name in NAMES:
            own = {"NAME": name, "TOPICS": json.dumps(TOPICS), "ADVERTISE": self.at[name], **beside.get(name, {})}
            apis.append(LocalCluster.api(PACKAGE, f"{name}-api", self.at[name], home, {**servers, **own}))
        path = home / "releases.json"
        file.change(path, first, second, file.ByHand(self.at[second], PACKAGE))
        routed = {"INSTANCES": json.dumps({first: self.at[first]}), "RELEASES": str(path)}
        self.gateway = LocalCluster.api("services.gateway", "gateway", self.at["gateway"], home, routed)
        self.children = [*apis, self.gateway]
        self.wrong: list[int] = []
        self.failed: list[object] = []
        self.answered = 0

    def read(self, feed: Feed) -> None:
        """Read a key: an answer has no more records than were sent."""
        pause(0.05)
        try:
            answer = urllib3.request("GET", f"{self.url}/v1/emitted/{KEYS[0]}", timeout=REQUEST_S, retries=False)
        except HTTPError as error:
            self.failed.append(error)
            return
        if answer.status != 200:
            self.failed.append(answer.json())
            return
        self.answered += 1
        self.wrong += [count for count in (answer.json()["count"],) if count > feed.sent[KEYS[0]]]

    def knows(self, release: str) -> bool:
        """Whether the gateway reaches the release."""
        return urllib3.request("GET", f"{self.url}/openapi.json", headers={RELEASE: release}).status == 200

    def has_answered(self, count: int) -> bool:
        return self.answered >= count


def restart(serving: Serving, releases: Releases, part: str) -> None:
    """Kill a part by signal 9, and start it again."""
    if part == "gateway":
        serving.gateway.kill()
        serving.gateway.start()
        serving.gateway.wait_until(lambda: answers(f"{serving.url}/readyz"), PATIENCE_S)
    elif part == "redis":
        releases.cluster.redis.kill()
        releases.cluster.redis.start()
    else:
        # Both releases run in one process.
        serving.streams[0].kill()
        for stream in serving.streams:
            stream.start()


def folded(releases: Releases, topic: str, names: Sequence[str]) -> Callable[[], bool]:
    """Whether all releases have the records sent so far: a killed process is in its group until its session ends."""
    ends = Topics(releases.cluster.kafka.bootstrap).ends((topic, partition) for partition in range(PARTITIONS))

    def reached() -> bool:
        read = [positions_of(releases, name, topic) for name in names]
        return all(at >= end for positions in read for at, end in zip(positions, ends.values(), strict=True))

    return reached


def positions_of(releases: Releases, name: str, topic: str) -> list[int]:
    """The next offset of each partition in the state of a release."""
    snapshots = RedisStore(connect(releases.cluster.redis.url, 5.0), name).read(dict.fromkeys(range(PARTITIONS), ()))
    return [snapshots[partition].positions.get(topic, 0) for partition in range(PARTITIONS)]


def test_a_switch_ends_whatever_is_killed_within(releases: Releases, tmp_path: Path) -> None:
    first, second = NAMES
    releases.create(*TOPICS.values())
    serving, feed = Serving(releases, tmp_path), Feed(releases, TOPICS[IN])
    command = Command(releases, PACKAGE, NAME=first, TOPICS=json.dumps(TOPICS), GATEWAY=serving.url)
    with ExitStack() as stack:
        stack.enter_context(feed.running())
        for child in (serving.streams[0], *serving.children):
            stack.enter_context(child)
        until_equal(lambda: command.run("releases", "emitting")[0]["state"], "ready", "the first release")
        command.run("stage", "emitting", "--name", second)
        stack.enter_context(serving.streams[1])
        stack.enter_context(repeating(lambda: serving.read(feed)))
        command.run("wait", "emitting", "--timeout", "60")
        until(partial(serving.has_answered, 1), "an answer")
        until(lambda: serving.knows(second), "the gateway to reach the second release")
        assert command.run("diff", "emitting")["equal"] == len(KEYS)
        serving.failed.clear()
        for order in ("promote", "back"):
            command.run(order, "emitting")
        assert serving.failed == []
        switches = (("gateway", "promote", second), ("streams", "back", first), ("redis", "promote", second))
        for part, order, live in switches:
            command.killed(1, "after", order, "emitting")
            restart(serving, releases, part)
            until(folded(releases, TOPICS[IN], NAMES), f"both releases to fold after a kill of {part}")
            command.run("wait", "emitting", live, "--timeout", "60")
            assert command.run("promote", "emitting", live)["live"] == live
            until(partial(serving.has_answered, serving.answered + 5), f"answers after a kill of {part}")
        assert serving.wrong == []
        check(releases, command, feed, NAMES, TOPICS)


def check(
    releases: Releases, command: Command, feed: Feed, names: tuple[str, str], topics: Mapping[str, str] | None = None
) -> None:
    """All outputs, of the records so far, are there, some of them repeated; the states equal their recounts.

    topics: other names of topics.
    """
    into = {topic: (topics or {}).get(topic, topic) for topic in (IN, OUT, TOTALS, APP.dead_letters)}
    stores = [RedisStore(connect(releases.cluster.redis.url, 5.0), name) for name in names]
    # Outputs are published before the commit of their records.
    committed = [store.read({partition: [] for partition in range(PARTITIONS)}) for store in stores]
    bad = letters(releases.read(into[APP.dead_letters]))
    published = causes(releases.read(into[OUT]))
    assert not bad.keys() & published.keys()
    for partition in range(PARTITIONS):
        end = min(snapshots[partition].positions[into[IN]] for snapshots in committed)
        offsets = sorted(offset for p, offset in (*bad, *published) if p == partition and offset < end)
        assert offsets == list(range(end))
    assert command.run("verify", "emitting")[0]["differences"] == []
    second = {"NAME": names[1], "RELEASE_OF": names[0]}
    assert command.run("verify", "emitting", **second)[0]["differences"] == []
    before = Counter(feed.sent)

    def totals() -> dict[str, int]:
        return {(each.key() or b"").decode(): int(each.value() or b"0") for each in releases.read(into[TOTALS])}

    until(lambda: all(totals().get(key, 0) >= before[key] - 1 for key in KEYS), "the totals of the second release")
