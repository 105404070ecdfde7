"""Settings of topics with which a state would be wrong, on a real Kafka: refused or said, with the next step."""

from pathlib import Path

import pytest

from devkit.servers.child_process import LOCALHOST
from devkit.topics import create
from tests.deployment import Deployment
from tests.integration.releases import Releases
from tests.waiting import now_ms, until, until_equal

YAML = """
name: orders
topic: bought
key: value.user
path: /v1/users/<key>/orders
fields: {user: int}
measures: {bought: {count: all, over: [1h, ever]}}
"""
TOPIC, KEYED, NAME = "bought", "bought-by-user-int", "orders"
TIMES, BEFORE = "message.timestamp.type", "message.timestamp.before.max.ms"
DAY_MS = 86_400_000


@pytest.fixture
def orders(releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A profile over a topic whose re-keyed topic has the times of its arrival."""
    (file := tmp_path / "orders.yaml").write_text(YAML)
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(file))
    create(releases.cluster.kafka.bootstrap, {TOPIC: {}, f"{NAME}-dlq": {}, KEYED: {TIMES: "LogAppendTime"}}, 1)
    deployment = Deployment(releases.cluster, NAME, host=releases.make)
    deployment.service = "profile"
    return deployment


def faults(deployment: Deployment) -> str:
    return "; ".join(deployment.command("status")["faults"])


def test_a_build_from_a_compacted_topic_is_refused_until_an_operator_allows_it(deployment: Deployment) -> None:
    deployment.configure("cleanup.policy", "compact,delete")
    deployment.send(100)
    refusal, topic = f"Kafka compacts {deployment.topic} (cleanup.policy=compact,delete)", deployment.topic
    stream = deployment.stream()
    stream.refused(refusal, f"--entity-name {topic} --alter --add-config cleanup.policy=delete")
    assert refusal in faults(deployment)
    assert refusal in "".join(deployment.command("verify", status=1)["faults"])
    assert refusal in "".join(deployment.command("reset", "--dry-run")["findings"])
    allowed = deployment.command("allow", topic, "--reason", "only the last plays matter")
    assert allowed["before"] == {"0": 0}
    deployment.folded(100)
    assert deployment.command("verify", status=0)["differences"] == []
    staged = deployment.run("stage", "--dry-run")
    assert (staged.exit_code, refusal in staged.output) == (3, True), staged.output


def test_a_state_that_is_built_goes_on_over_a_topic_that_is_compacted_since(deployment: Deployment) -> None:
    stream = deployment.build()
    deployment.configure("cleanup.policy", "compact")
    stream.stop()
    deployment.send(10)
    deployment.stream()
    deployment.folded(110)
    status = deployment.command("status")
    assert f"Kafka compacts {deployment.topic}" in "".join(status["warnings"])
    assert "compacts" not in "".join(status["faults"])
    assert f"Kafka compacts {deployment.topic}" in "".join(deployment.command("verify", status=1)["faults"])


def test_a_replay_names_the_record_whose_timestamp_is_refused(deployment: Deployment) -> None:
    now = now_ms()
    deployment.put(now, now - 3 * DAY_MS, value=b"{")
    deployment.stream()
    deployment.folded(2)
    deployment.configure(BEFORE, DAY_MS)
    refused = deployment.run("dlq replay", "--yes")
    assert refused.exit_code != 0
    assert f"{deployment.topic} refuses the timestamp of the record 0:1: set {BEFORE}" in refused.output
    deployment.configure(BEFORE, 2**63 - 1)
    assert deployment.command("dlq replay", "--yes", status=0)["topics"] == {deployment.topic: 2}


def test_times_of_arrival_are_refused_and_a_refused_time_is_said_with_its_record(
    orders: Deployment, releases: Releases, tmp_path: Path
) -> None:
    old = now_ms() - 3 * DAY_MS
    releases.out.produce(TOPIC, b'{"user": 1}', timestamp=old + 3 * DAY_MS, partition=0)
    releases.out.produce(TOPIC, b'{"user": 2}', timestamp=old, partition=0)
    releases.out.flush()
    stream = orders.stream(PROFILE=str(tmp_path / "orders.yaml"), ADVERTISE=f"{LOCALHOST}:1")
    try:
        stream.refused(f"Kafka dates the records of {KEYED} anew", f"--entity-name {KEYED}", f"{TIMES}=CreateTime")
        orders.topic = KEYED
        orders.configure(TIMES, "CreateTime")
        orders.configure(BEFORE, DAY_MS)
        until(lambda: f"{KEYED} refuses the timestamp of the record from {TOPIC}:0:1" in faults(orders), "the cause")
        assert f"{KEYED} refuses records older than 86,400,000 ms ({BEFORE})" in "".join(
            orders.command("status")["warnings"]
        )
        orders.configure(BEFORE, 2**63 - 1)
        until_equal(orders.position, 2, "both records")
        until(lambda: not faults(orders), "the stream to withdraw its report")
        assert orders.command("verify", status=0)["differences"] == []
    finally:
        orders.close()
