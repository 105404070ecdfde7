"""A profile with the key from the value on a real Kafka, Redis and Spark: each record counts once after kill -9."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from devkit.child_process import Child
from streamstate.cli.services import deployments
from streamstate.keys import MARKER_HEADER
from streamstate.operators.repeats import REPEATS
from streamstate.profile.layout import NUMBERS
from streamstate.settings import CommandSettings
from streamstate.state.operations import Fields
from streamstate.state.store import Snapshot
from streamstate.verify.check import Check
from tests.deployment import Deployment
from tests.integration.driving import headers
from tests.integration.releases import PARTITIONS, Releases
from tests.waiting import until

PAGE = Path("docs/profile.md").read_text()
*_, YAML = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
USERS, RECORDS, BAD = 20, 300, 10
TOPIC, KEYED, NAME = "purchases", "purchases-by-userId-int", "sales"


@dataclass
class Sales:
    """The deployment of the page's profile, and the purchases sent, by user."""

    releases: Releases
    deployment: Deployment
    counted: Counter[int] = field(default_factory=Counter)
    draw: Random = field(default_factory=lambda: Random(1))

    def send(self, count: int) -> None:
        for _ in range(count):
            user = self.draw.randrange(USERS)
            self.counted[user] += 1
            value = json.dumps({"userId": user, "cents": 5})
            self.releases.out.produce(TOPIC, value, self.draw.choice([None, b"shop", b"\0" * 8]))
        self.releases.out.flush()

    def states(self) -> Collection[Snapshot]:
        reads = [Fields(f"{NUMBERS}:{user}") for user in range(USERS)]
        return self.deployment.store.read(dict.fromkeys(range(PARTITIONS), reads)).values()

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
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis takes no writes meanwhile, so the stream is killed at the commit."""
    (file := tmp_path / "sales.yaml").write_text(YAML)
    releases.create(TOPIC, f"{NAME}-dlq")
    releases.create(KEYED, partitions=PARTITIONS - 1)
    deployment = Deployment(releases.cluster, NAME)
    deployment.service = "profile"
    sales = Sales(releases, deployment)
    for _ in range(BAD):
        releases.out.produce(TOPIC, b'{"cents": 5}')
    sales.send(RECORDS)
    stream = deployment.stream(PROFILE=str(file))
    try:
        folded = {TOPIC: RECORDS + BAD, KEYED: RECORDS}
        until(lambda: sales.positions() == folded, 180, "the first purchases")
        deployment.client.client_pause(60_000, all=False)
        sales.send(RECORDS)
        until(lambda: len(releases.read(KEYED)) > RECORDS, 60, "a publication")
        sales.kill_at_commit(stream.child)
        assert sales.positions() == folded
        deployment.stream(PROFILE=str(file))
        all_sent = 2 * RECORDS + BAD
        until(lambda: sales.positions() == {TOPIC: all_sent, KEYED: len(releases.read(KEYED))}, 180, "all purchases")
        sent = releases.read(KEYED)
        assert len({headers(record)[MARKER_HEADER] for record in sent}) == 2 * RECORDS
        assert (sales.counts(REPEATS), sales.counts("dead_letters")) == (len(sent) - 2 * RECORDS, BAD)
        assert len(sent) > 2 * RECORDS
        assert sales.counted == {
            user: sum(of.values[user].get("#", 0) for of in sales.states()) for user in range(USERS)
        }
        monkeypatch.setenv("STREAMSTATE_PROFILE", str(file))
        own = CommandSettings.model_validate({**releases.cluster.settings.model_dump(), "name": NAME})
        (of,) = deployments(own, ["profile"])
        report = Check(of.recounted, own).run()
        assert (report.records, report.differences, report.faults) == (all_sent + len(sent), [], [])
    finally:
        deployment.client.client_unpause()
        deployment.close()
