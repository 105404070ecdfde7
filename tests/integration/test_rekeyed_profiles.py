"""A profile with the key from the value on a real Kafka, Redis and Spark: each record counts once after kill -9."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from streamstate.cli.services import deployments
from streamstate.keys import MARKER_HEADER
from streamstate.operators.repeats import REPEATS
from streamstate.profile.layout import NUMBERS
from streamstate.settings import CommandSettings
from streamstate.state.operations import Fields
from streamstate.verify.check import Check
from tests.deployment import Deployment
from tests.integration.driving import headers
from tests.integration.releases import PARTITIONS, Releases
from tests.waiting import until

PAGE = Path("docs/profile.md").read_text()
*_, YAML = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
USERS, RECORDS, BAD = 20, 300, 10
TOPIC, KEYED, NAME = "purchases", "purchases-by-userId-int", "sales"


def test_each_record_counts_once_after_a_kill_between_publication_and_commit(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis takes no writes meanwhile, so the stream is killed at the commit."""
    draw, counted = Random(1), Counter[int]()
    (file := tmp_path / "sales.yaml").write_text(YAML)
    releases.create(TOPIC, f"{NAME}-dlq")
    releases.create(KEYED, partitions=PARTITIONS - 1)
    deployment = Deployment(releases.cluster, NAME)
    deployment.service = "profile"

    def send(count: int) -> None:
        for _ in range(count):
            user = draw.randrange(USERS)
            counted[user] += 1
            value = json.dumps({"userId": user, "cents": 5})
            releases.out.produce(TOPIC, value, draw.choice([None, b"shop", b"\0" * 8]))
        releases.out.flush()

    def positions() -> Mapping[str, int]:
        total = Counter[str]()
        for snapshot in deployment.store.read({partition: [] for partition in range(PARTITIONS)}).values():
            total.update({topic: snapshot.positions.get(topic, 0) for topic in (TOPIC, KEYED)})
        return total

    send(RECORDS)
    for _ in range(BAD):
        releases.out.produce(TOPIC, b'{"cents": 5}')
    releases.out.flush()
    stream = deployment.stream(PROFILE=str(file))
    try:
        folded = {TOPIC: RECORDS + BAD, KEYED: RECORDS}
        until(lambda: positions() == folded, 180, "the first purchases")
        deployment.client.client_pause(60_000, all=False)
        send(RECORDS)
        until(lambda: len(releases.read(KEYED)) == 2 * RECORDS, 60, "the publication of the rest")
        stream.child.kill()
        for each in deployment.client.client_list():
            # Redis would execute a waiting commit, as of a process killed a moment later.
            if "b" in each["flags"]:
                deployment.client.client_kill_filter(_id=each["id"])
        deployment.client.client_unpause()
        assert positions() == folded
        deployment.stream(PROFILE=str(file))
        until(lambda: positions() == {TOPIC: 2 * RECORDS + BAD, KEYED: len(releases.read(KEYED))}, 180, "all purchases")
        sent = releases.read(KEYED)
        assert len({headers(record)[MARKER_HEADER] for record in sent}) == 2 * RECORDS
        states = deployment.store.read(
            {p: [Fields(f"{NUMBERS}:{user}") for user in range(USERS)] for p in range(PARTITIONS)}
        ).values()
        assert sum(of.counters.get(REPEATS, 0) for of in states) == len(sent) - 2 * RECORDS == RECORDS
        assert sum(of.counters.get("dead_letters", 0) for of in states) == BAD
        found = Counter({user: sum(of.values[user].get("#", 0) for of in states) for user in range(USERS)})
        assert found == counted
        monkeypatch.setenv("STREAMSTATE_PROFILE", str(file))
        own = CommandSettings.model_validate({**releases.cluster.settings.model_dump(), "name": NAME})
        (of,) = deployments(own, ["profile"])
        report = Check(of.recounted, own).run()
        assert (report.records, report.differences, report.faults) == (2 * RECORDS + BAD + len(sent), [], [])
    finally:
        deployment.client.client_unpause()
        deployment.close()
