"""`streamstate` beside a running cluster: what an operator sees of it."""

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from typer.testing import CliRunner, Result

from streamstate.cli.main import app
from streamstate.kafka.admin import Topics
from tests.integration.conftest import INSTANCES
from tests.integration.driving import Driving

Run = Callable[..., Result]


@pytest.fixture
def run(driving: Driving) -> Run:
    """Calls the command with the servers of the cluster, which is at rest."""
    driving.settle()
    servers = {"KAFKA": driving.cluster.kafka.bootstrap, "REDIS": driving.cluster.redis.url}

    def command(*arguments: str, **settings: str) -> Result:
        given = {f"STREAMSTATE_{name}": value for name, value in (servers | settings).items()}
        return CliRunner().invoke(app, arguments, env=given)

    return command


def answer(result: Result, status: int = 0) -> Any:
    """The one JSON document on stdout of a command that ended with `status`."""
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def test_status_is_fine_where_everything_is_folded(driving: Driving, run: Run) -> None:
    reports = {report["service"]: report for report in answer(run("status", "--json"))}
    assert set(reports) == set(driving.cluster.addresses)
    topics = Topics(driving.cluster.kafka.bootstrap)
    for service, report in reports.items():
        assert report["faults"] == []
        assert {topic["topic"]: topic["partitions"] for topic in report["topics"]} == {
            topic["topic"]: topics.partitions(topic["topic"]) for topic in report["topics"]
        }
        for partition in report["partitions"]:
            assert partition["ready"]
            assert partition["lag"] == 0
            assert partition["epoch"] > 0
            assert partition["instance"].startswith(f"{service}-")
    assert reports["metrics"]["topics"][0]["newest_ms"] > 0


def test_status_is_a_table_for_people(run: Run) -> None:
    result = run("status", "metrics", "names")
    assert result.exit_code == 0, result.output
    head, metrics, *names = result.stdout.splitlines()
    assert head.split()[:4] == ["service", "state", "topic", "partitions"]
    assert metrics.split()[:5] == ["metrics", "ready", "listening-events", "8", "0"]
    assert len(names) == 4


def test_watching_goes_on_until_it_is_interrupted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = iter([None])

    def pause(_seconds: float) -> None:
        if next(pauses, "over") == "over":
            raise KeyboardInterrupt

    # Not `time.sleep` itself: threads of other tests are in it.
    monkeypatch.setattr("streamstate.cli.status.time", SimpleNamespace(sleep=pause))
    result = run("status", "metrics", "--watch")
    assert result.exit_code == 0, result.output
    assert "metrics" in result.stdout


def test_owners_share_the_partitions(driving: Driving, run: Run) -> None:
    partitions = answer(run("owners", "metrics", "--json"))["metrics"]
    assert [each["partition"] for each in partitions] == list(range(8))
    assert {each["owner"] for each in partitions} == set(driving.cluster.addresses["metrics"])
    assert {each["instance"] for each in partitions} == {f"metrics-{n}" for n in range(INSTANCES["metrics"])}
    rows = run("owners", "metrics").stdout.splitlines()
    assert len(rows) == 1 + 8


def test_verify_finds_no_difference(run: Run) -> None:
    [report] = answer(run("verify", "names", "--json"))
    assert report["records"] > 0
    assert report["differences"] == []
    assert run("verify", "names").stdout.startswith("names: 8 partitions")


@pytest.fixture
def client(driving: Driving) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(driving.cluster.redis.url) as client:
        yield client


def test_verify_is_status_1_where_something_differs(run: Run, client: redis.Redis) -> None:
    (key,) = client.scan_iter(match="{metrics:*}:user:1", count=10_000)
    client.hincrby(key.decode(), "count", 1)
    try:
        [report] = answer(run("verify", "metrics", "--json"), 1)
        assert [difference["place"] for difference in report["differences"]] == [key.decode()]
        text = run("verify", "metrics")
        assert (text.exit_code, key.decode() in text.stdout) == (1, True)
    finally:
        client.hincrby(key.decode(), "count", -1)


def test_a_state_that_no_stream_makes_is_status_1_with_what_to_do(run: Run) -> None:
    [report] = answer(run("status", "metrics", "--json", NAME="nobody"), 1)
    assert report["service"] == "nobody"
    advice = "start one, or correct STREAMSTATE_NAME or STREAMSTATE_GROUP"
    assert report["faults"] == [f"no stream runs in the consumer group nobody; {advice}"]
    assert "nobody: no stream runs" in run("status", "metrics", NAME="nobody").stdout


def test_a_commit_that_stopped_half_way_is_told_and_the_other_partitions_too(run: Run, client: redis.Redis) -> None:
    client.hset("{halved:3}", mapping={"owner": "a:1", "begun": 1})
    client.hset("{halved:4}", mapping={"owner": "a:1", "epoch": 7})
    try:
        [report] = answer(run("status", "metrics", "--json", NAME="halved"), 1)
        assert "a commit to {halved:3}, or a reset of it, stopped half way" in report["faults"][0]
        assert [partition["epoch"] for partition in report["partitions"]] == [0, 0, 0, 0, 7, 0, 0, 0]
    finally:
        client.delete("{halved:3}", "{halved:4}")


def test_a_redis_that_lets_go_of_keys_is_refused_before_it_has(run: Run, client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        [report] = answer(run("status", "metrics", "--json"), 1)
        assert "set maxmemory-policy noeviction" in report["faults"][0]
    finally:
        client.config_set("maxmemory-policy", "noeviction")


def test_a_topic_that_is_missing_is_named(run: Run) -> None:
    [report] = answer(run("status", "metrics", "--json", TOPICS='{"listening-events": "none"}'), 1)
    assert "the topic none cannot be read" in report["faults"][0]
