"""Producers with other partitioners than Java's, on a real Kafka, Redis and Spark, behind a gateway."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import urllib3
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from devkit.cluster.local_cluster import variables
from streamstate.cli.main import app
from streamstate.cli.services import deployments
from streamstate.keys import LONG, partition_of
from streamstate.settings import CommandSettings
from streamstate.verify.check import Check
from tests.deployment import Deployment
from tests.integration.releases import Releases
from tests.integration.served import served
from tests.waiting import REQUEST_S, until

PARTITIONS = 8
LIBRDKAFKA = {"murmur2": "murmur2_random", "crc32": "consistent_random", "fnv1a": "fnv1a_random"}
VISITORS = [f"visitor-{number}" for number in range(7)]
PROFILE = """
name: {name}
topic: {name}
key: text
path: /v1/visitors/<key>/{name}
fields: {{page: str}}
measures: {{visits: {{count: all}}}}
"""


@pytest.mark.parametrize("partitioner", LIBRDKAFKA)
def test_keys_are_where_a_producer_places_them(releases: Releases, partitioner: str) -> None:
    topic, draw = f"placed-by-{partitioner}", Random(1)
    keys = {draw.randbytes(size) for size in range(40) for _ in range(10)} | {LONG.encode(user) for user in range(100)}
    releases.create(topic, partitions=PARTITIONS)
    own = {"partitioner": LIBRDKAFKA[partitioner], "sticky.partitioning.linger.ms": 0}
    out = Producer({"bootstrap.servers": releases.cluster.kafka.bootstrap, **own})
    for key in [*sorted(keys), *[b""] * 50]:
        out.produce(topic, b"", key)
    out.flush()
    placed = [(record.key() or b"", record.partition()) for record in releases.read(topic)]
    assert len(placed) == len(keys) + 50
    if partitioner == "crc32":
        # Its keys without a byte are anywhere.
        assert len({partition for key, partition in placed if not key}) > 1
        placed = [(key, partition) for key, partition in placed if key]
    assert {key: partition_of(key, PARTITIONS, partitioner) for key, _ in placed} == dict(placed)


class Visits:
    """A profile over a topic of its own, in a file."""

    def __init__(self, releases: Releases, home: Path, name: str) -> None:
        self.name, self._releases, self._home = name, releases, home
        self.file = home / f"{name}.yaml"
        self.file.write_text(PROFILE.format(name=name))
        releases.create(name, f"{name}-dlq", partitions=PARTITIONS)
        self.deployment = Deployment(releases.cluster, name, host=releases.make)
        self.deployment.service = "profile"

    def send(self, **settings: str) -> None:
        """A visit of each visitor, by a producer with these settings besides its defaults."""
        out = Producer({"bootstrap.servers": self._releases.cluster.kafka.bootstrap, **settings})
        for visitor in VISITORS:
            out.produce(self.name, b'{"page": "home"}', visitor)
        out.flush()

    def served(self, **settings: str) -> Any:
        return served(self.deployment, "profile", self._home, PROFILE=str(self.file), **settings)

    def get(self, url: str, visitor: str) -> Any:
        return urllib3.request("GET", f"{url}/v1/visitors/{visitor}/{self.name}", timeout=REQUEST_S, retries=False)

    def folded(self, records: int) -> None:
        def reached() -> bool:
            states = self.deployment.store.read({partition: [] for partition in range(PARTITIONS)})
            return sum(state.positions.get(self.name, 0) for state in states.values()) == records

        until(reached, "the visits")

    def command(self, *arguments: str) -> Result:
        settings = self._releases.cluster.settings
        own = {"KAFKA": settings.kafka, "REDIS": settings.redis, "NAME": self.name, "PROFILE": str(self.file)}
        return CliRunner().invoke(app, [*arguments], env=variables(own))

    def warnings(self) -> list[str]:
        """Those of `streamstate status`."""
        (report,) = json.loads(self.command("status", "profile", "--json").stdout)
        return list(report["warnings"])

    def differences(self) -> Any:
        own = {**self._releases.cluster.settings.model_dump(), "name": self.name}
        settings = CommandSettings.model_validate(own)
        (of,) = deployments(settings, ["profile"])
        return Check(of.app, settings).run().differences


def answers(visits: Visits, url: str) -> Mapping[str, Any]:
    got = {visitor: visits.get(url, visitor) for visitor in VISITORS}
    return {visitor: response.json()["visits"] for visitor, response in got.items() if response.status == 200}


def test_the_partitioner_of_a_producer_by_its_defaults_is_named_and_then_its_keys_are_answered(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = Visits(releases, tmp_path, "visits")
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(visits.file))
    visits.send()
    named = (
        f"the producers of {visits.name} place keys by crc32, not murmur2: declare partitioner: crc32 in the profile"
    )
    checked = visits.command("profile", "check", str(visits.file))
    assert (checked.exit_code, f"visits.yaml:4: {named}" in checked.stdout) == (1, True), checked.output
    with visits.served() as url:
        visits.folded(len(VISITORS))
        until(lambda: visits.warnings() == [named], "the status to name the partitioner")
        found = answers(visits, url)
        unknown = next(visitor for visitor in VISITORS if visitor not in found)
        assert visits.get(url, unknown).json()["detail"] == f"nothing is known of this key in visits; {named}"
        assert named in visits.deployment.started[0].log.read_text()
    visits.file.write_text(f"{visits.file.read_text()}partitioner: crc32\n")
    assert visits.command("profile", "check", str(visits.file)).exit_code == 0
    with visits.served() as url:
        visits.send()
        visits.folded(2 * len(VISITORS))
        until(lambda: answers(visits, url) == dict.fromkeys(VISITORS, 2), "all visitors")
        assert "check the key" in visits.get(url, "nobody").json()["detail"]
        (step,) = urllib3.request("GET", f"{url}/v1/route/visits/{VISITORS[0]}").json()["views"]
        place = partition_of(VISITORS[0].encode(), PARTITIONS, "crc32")
        assert (step["partition"], step["partitioner"]) == (place, "crc32")
        assert step["hash"] % PARTITIONS == place
        assert visits.warnings() == []
    assert visits.differences() == []


def test_records_of_several_partitioners_are_said_to_need_the_key_from_the_value(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the setting of a deployment, and a second producer that comes later."""
    visits = Visits(releases, tmp_path, "mixed-visits")
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(visits.file))
    visits.send(partitioner="fnv1a_random")
    formats = json.dumps({visits.name: {"partitioner": "fnv1a"}})
    with visits.served(FORMATS=formats) as url:
        visits.folded(len(VISITORS))
        until(lambda: answers(visits, url) == dict.fromkeys(VISITORS, 1), "all visitors")
        visits.send()
        until(lambda: "key from the value" in visits.get(url, "nobody").json()["detail"], "the answer to name it")
