"""A profile with the key from the value on a real Kafka, Redis, Spark and schema registry: each record counts once."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from devkit.events.formats import registered
from devkit.lab.archived import archive
from devkit.servers.child_process import LOCALHOST, Child
from devkit.servers.schema_registry import SchemaRegistry
from devkit.topics import create as create_topics
from devkit.topics import cut
from streamstate import bootstrap
from streamstate.cli.services import deployments
from streamstate.formats.registered.registry import Registry
from streamstate.formats.writing import FormatEncoder
from streamstate.keys import LONG, MARKER_HEADER, TEXT, partition_of
from streamstate.operators.repeats import REPEATS
from streamstate.profile.layout import NUMBERS
from streamstate.settings import CommandSettings
from streamstate.state.operations import Fields
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import connect
from streamstate.state.store import Snapshot, positions_of
from streamstate.verify.check import Check
from tests.deployment import Deployment
from tests.integration.driving import headers
from tests.integration.releases import PARTITIONS, Command, Releases
from tests.waiting import until

PAGE = Path("docs/profile.md").read_text()
*_, YAML = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
USERS, RECORDS, BAD, SLOW = 20, 300, 10, 4_000
TOPIC, KEYED, NAME = "purchases", "purchases-by-userId-int", "sales"
FORMAT: dict[str, Any] = {"value": "avro", "fields": {"userId": "user_id"}}


class Purchase(msgspec.Struct, rename="camel"):
    """The value of a purchase; without a user, a dead letter."""

    user_id: int | None
    cents: int = 5


def states(store: RedisStore) -> Collection[Snapshot]:
    """All partitions, with the numbers of all users."""
    reads = [Fields(f"{NUMBERS}:{user}") for user in range(USERS)]
    return store.read(dict.fromkeys(range(PARTITIONS), reads)).values()


def counts(store: RedisStore) -> Mapping[int, int]:
    """The purchases of each user."""
    return {user: sum(of.values[user].get("#", 0) for of in states(store)) for user in range(USERS)}


@dataclass
class Sales:
    """The deployment of the page's profile, and the purchases sent, by user, as `write` encodes them."""

    releases: Releases
    deployment: Deployment
    write: Callable[[bytes], bytes]
    counted: Counter[int] = field(default_factory=Counter)
    draw: Random = field(default_factory=lambda: Random(1))

    def send(self, count: int) -> None:
        for _ in range(count):
            user = self.draw.randrange(USERS)
            self.counted[user] += 1
            self.put(Purchase(user), self.draw.choice([None, b"shop", b"\0" * 8]))
        self.releases.out.flush()

    def put(self, purchase: Purchase, key: bytes | None = None) -> None:
        self.releases.out.produce(TOPIC, self.write(msgspec.json.encode(purchase)), key)

    def states(self) -> Collection[Snapshot]:
        return states(self.deployment.store)

    def positions(self) -> Mapping[str, int]:
        return {topic: sum(of.positions.get(topic, 0) for of in self.states()) for topic in (TOPIC, KEYED)}

    def counts(self, name: str) -> int:
        return sum(of.counters.get(name, 0) for of in self.states())

    def kill_at_commit(self, stream: Child) -> None:
        """Kill the stream, whose commits Redis makes wait."""
        stream.kill()
        for each in self.deployment.client.client_list():
            # Redis would execute a waiting commit, as of a process killed a moment later.
            if "b" in each["flags"]:
                self.deployment.client.client_kill_filter(_id=each["id"])
        self.deployment.client.client_unpause()


def test_each_record_counts_once_after_a_kill_between_publication_and_commit(
    releases: Releases, registry: SchemaRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis takes no writes meanwhile, so the stream is killed at the commit. The purchases are Avro, the rest JSON."""
    (file := tmp_path / "sales.yaml").write_text(YAML)
    releases.create(TOPIC, f"{NAME}-dlq")
    releases.create(KEYED, partitions=PARTITIONS - 1)
    deployment = Deployment(releases.cluster, NAME, host=releases.make)
    deployment.service = "profile"
    writer = FormatEncoder((TEXT, TEXT), Purchase, "avro", FORMAT["fields"], Registry(registry.url))
    sales = Sales(releases, deployment, registered(writer, TOPIC).write)
    for _ in range(BAD):
        sales.put(Purchase(None))
    sales.send(RECORDS)
    settings = {"PROFILE": str(file), "FORMATS": json.dumps({TOPIC: FORMAT}), "REGISTRY": registry.url}
    stream = deployment.stream(**settings)
    try:
        folded = {TOPIC: RECORDS + BAD, KEYED: RECORDS}
        # The stream claims once more at the end of its first build.
        until(lambda: all(state.ready([TOPIC, KEYED]) for state in sales.states()), "the first build")
        until(lambda: sales.positions() == folded, "the first purchases")
        deployment.client.client_pause(60_000, all=False)
        sales.send(RECORDS)
        until(lambda: len(releases.read(KEYED)) > RECORDS, "a publication")
        sales.kill_at_commit(stream.child)
        assert sales.positions() == folded
        deployment.stream(**settings)
        all_sent = 2 * RECORDS + BAD
        until(lambda: sales.positions() == {TOPIC: all_sent, KEYED: len(releases.read(KEYED))}, "all purchases")
        sent = releases.read(KEYED)
        assert len({headers(record)[MARKER_HEADER] for record in sent}) == 2 * RECORDS
        assert (sales.counts(REPEATS), sales.counts("dead_letters")) == (len(sent) - 2 * RECORDS, BAD)
        assert len(sent) > 2 * RECORDS
        assert sales.counted == counts(deployment.store)
        monkeypatch.setenv("STREAMSTATE_PROFILE", str(file))
        formats = {"formats": {TOPIC: FORMAT}, "registry": registry.url}
        own = CommandSettings.model_validate({**releases.cluster.settings.model_dump(), **formats, "name": NAME})
        (of,) = deployments(own, ["profile"])
        report = Check(of.app, own).run()
        assert (report.records, report.differences, report.faults) == (all_sent + len(sent), [], [])
    finally:
        deployment.client.client_unpause()
        deployment.close()


def test_a_partition_is_ready_only_with_the_records_that_its_stream_was_still_sending(
    releases: Releases, tmp_path: Path
) -> None:
    topic, width = "refunds", PARTITIONS - 1
    keyed = KEYED.replace(TOPIC, topic)
    (file := tmp_path / "refunds.yaml").write_text(YAML.replace(NAME, topic).replace(TOPIC, topic))
    releases.create(topic, f"{topic}-dlq")
    releases.create(keyed, partitions=width)
    for number in range(SLOW):
        value = msgspec.json.encode(Purchase(number % USERS))
        releases.out.produce(topic, value, partition=number % PARTITIONS)
    releases.out.flush()
    store = RedisStore(connect(releases.cluster.redis.url, 5.0), topic)
    of_partition = Counter(partition_of(LONG.encode(user), width) for user in range(USERS))
    ready: dict[int, list[int]] = defaultdict(list)

    def built() -> bool:
        for partition, state in enumerate(states(store)):
            if partition < width and state.ready([keyed]):
                ready[partition].append(sum(of.get("#", 0) for of in state.values))
        return len(ready) == width

    settings = {"PROFILE": str(file), "ADVERTISE": f"{LOCALHOST}:1", "BUILD_RATE": str(SLOW // 4)}
    with releases.make("services.profile", topic, {}, **settings):
        until(built, "the build")
    assert {p: {*seen} for p, seen in ready.items()} == {p: {n * SLOW // USERS} for p, n in of_partition.items()}


def test_a_deleted_user_stays_deleted_in_a_build_from_a_compacted_archive(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build sends all records again but those of the deleted user, as does a profile of another type of key."""
    topic, kafka = "credits", releases.cluster.settings.kafka
    keyed, deletions = KEYED.replace(TOPIC, topic), f"{topic}-deletions"
    (file := tmp_path / "credits.yaml").write_text(YAML.replace(NAME, topic).replace(TOPIC, topic))
    releases.create(topic, keyed, f"{topic}-dlq")
    create_topics(kafka, {deletions: {"cleanup.policy": "compact"}}, 1)
    store = RedisStore(client := connect(releases.cluster.redis.url, 5.0), topic)
    settings = {"PROFILE": str(file), "ADVERTISE": f"{LOCALHOST}:1", "DELETIONS": deletions, "ARCHIVE": str(tmp_path)}
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(file))
    own = {**releases.cluster.settings.model_dump(), "name": topic, "deletions": deletions, "archive": str(tmp_path)}
    (of,) = deployments(CommandSettings.model_validate(own), ["profile"])
    asked = bootstrap.deletions(of.settings, of.topics)
    assert asked
    counted = dict.fromkeys(range(USERS), RECORDS // USERS)

    def built(places: Mapping[tuple[str, int], int]) -> bool:
        positions = positions_of(dict(enumerate(states(store))))
        return all(positions.get(place, 0) == end for place, end in places.items()) and counts(store) == counted

    def ends() -> Mapping[tuple[str, int], int]:
        return of.topics.ends([(name, p) for name in (topic, keyed) for p in range(PARTITIONS)])

    for number in range(RECORDS):
        value = msgspec.json.encode(Purchase(number % USERS))
        releases.out.produce(topic, value, partition=number % PARTITIONS)
    releases.out.flush()
    with releases.make("services.profile", topic, {}, **settings):
        until(lambda: built(ends()), "the first build")
        asked.request(of.app, "7")
        counted[7] = 0
        until(lambda: counts(store) == counted, "the deletion")
    archive(str(tmp_path), kafka, {topic: 1.0, keyed: 1.0})
    compacted = Command(releases, "services.profile", **settings).run("archive", "compact", keyed)
    assert sum(part["left_out"] for part in compacted) == RECORDS // USERS
    first = [record for record in releases.read(keyed) if re.search(rb":3:[01]:0$", headers(record)[MARKER_HEADER])]
    assert {record.key() for record in first} == {LONG.encode(3), LONG.encode(7)}
    cut(kafka, ends())
    client.delete(*client.scan_iter(f"{{{topic}:*"))
    with releases.make("services.profile", topic, {}, **settings):
        sent = 3 * RECORDS - RECORDS // USERS
        until(lambda: built(ends()) and sum(ends().values()) == sent, "the build from the archive")
    report = Check(of.app, of.settings).run()
    assert (report.records, report.differences) == (sent, [])
    other = "debits"
    (second := tmp_path / "debits.yaml").write_text(file.read_text().replace("userId: int", "userId: int(text)"))
    second.write_text(second.read_text().replace(f"name: {topic}", f"name: {other}").replace(f"/{topic}", f"/{other}"))
    releases.create(f"{keyed}-text", f"{other}-dlq")
    for record in first:
        # As by a stream that did not know the deletion.
        time, kept = record.timestamp()[1], record.headers()
        releases.out.produce(f"{keyed}-text", record.value(), record.key(), 3, timestamp=time, headers=kept)
    releases.out.flush()
    store, settings = RedisStore(client, other), {**settings, "PROFILE": str(second)}
    with releases.make("services.profile", other, {}, **settings):
        until(lambda: counts(store) == counted, "the build of another profile")
    assert len(releases.read(f"{keyed}-text")) == len(first) + RECORDS - RECORDS // USERS
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(second))
    (of,) = deployments(CommandSettings.model_validate({**own, "name": other}), ["profile"])
    assert Check(of.app, of.settings).run().differences == []
    command = Command(releases, "services.profile", **settings, NAME=other)
    then = command.run("replay", "profile", other, "7", "3", "--at", "2100-01-01")
    assert [each["answer"] and each["answer"]["orders"]["ever"] for each in then] == [None, counted[3]]
