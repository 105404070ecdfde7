"""Rules of a profile on a real Kafka, Redis and Spark: sent, read by the webhook of the documents, and verified."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devkit import records
from streamstate.cli.services import deployments
from streamstate.keys import MARKER_HEADER, Marker
from streamstate.settings import CommandSettings
from streamstate.verify.check import Check
from tests.deployment import Deployment
from tests.integration.driving import headers
from tests.integration.releases import PARTITIONS, Releases
from tests.waiting import until

PAGE = Path("docs/rules.md").read_text()
[YAML] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
[WEBHOOK] = re.findall(r"^```python\n(.*?)^for ", PAGE, re.DOTALL | re.MULTILINE)
USERS, PLAYS = 5, 120
TOPIC, SENT, NAME = "plays-of-alarms", "alarms-rules", "alarms"


def test_crossings_are_sent_read_by_a_webhook_and_verified(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "alarms.yaml").write_text(YAML.replace("topic: listening-events", f"topic: {TOPIC}"))
    releases.create(TOPIC, SENT, f"{NAME}-dlq")
    for number in range(PLAYS):
        for user in range(1, USERS + 1):
            key, value = records.event(user, 1, 2, 3, 1_000 + number)
            releases.out.produce(TOPIC, value, key)
    releases.out.flush()
    deployment = Deployment(releases.cluster, NAME, host=releases.make)
    deployment.service = "profile"
    sent = ("binge", 51), ("hundred", 100)
    expected = {(user, *each) for user in range(1, USERS + 1) for each in sent}
    deployment.stream(PROFILE=str(file))
    try:
        until(lambda: len(releases.read(SENT)) >= len(expected), 180, "the records of the rules")
        markers = [Marker.decode(headers(record)[MARKER_HEADER]) for record in releases.read(SENT)]
        assert len(set(markers)) == len(markers) == len(expected)
        found: dict[str, Any] = {}
        exec(compile(WEBHOOK, "docs/rules.md", "exec"), found)
        with closing(found["crossings"](releases.cluster.kafka.bootstrap, SENT, "webhook")) as crossings:
            read = [next(crossings) for _ in expected]
        assert {(each["key"], each["rule"], each["value"]) for each in read} == expected
        monkeypatch.setenv("STREAMSTATE_PROFILE", str(file))
        own = CommandSettings.model_validate({**releases.cluster.settings.model_dump(), "name": NAME})
        (of,) = deployments(own, ["profile"])
        until(lambda: _folded(deployment) == USERS * PLAYS, 60, "the rest of the plays")
        report = Check(of.recounted, own).run()
        assert (report.records, report.differences, report.faults) == (USERS * PLAYS, [], [])
    finally:
        deployment.close()


def _folded(deployment: Deployment) -> int:
    """The number of records in the state."""
    snapshots = deployment.store.read({partition: [] for partition in range(PARTITIONS)})
    return sum(snapshot.positions.get(TOPIC, 0) for snapshot in snapshots.values())
