"""`streamstate` with a running cluster: the output for users and operators."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner, Result

from services.clicks.model import CLICKS_PER_REGION, UNKNOWN, USER_CLICKS
from streamstate.cli.main import app
from streamstate.kafka.admin import Topics
from streamstate.state.store import FORMAT
from tests.integration.driving import Driving
from tests.waiting import until

Run = Callable[..., Result]


@pytest.fixture
def run(driving: Driving) -> Run:
    """Calls the command with the servers of the cluster, which is at rest."""
    driving.settle()

    def command(*arguments: str, **settings: str) -> Result:
        return CliRunner().invoke(app, arguments, env=driving.environment(**settings))

    return command


def answer(result: Result, status: int = 0) -> Any:
    """The single JSON document on stdout of a command with the exit status `status`."""
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


@pytest.fixture
def client(driving: Driving) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(driving.cluster.redis.url) as client:
        yield client


STRAY = ["{metrics:0}:user:77777777", "{metrics:99}:user:1", "{metrics:0}x", "{metrics:5}:é"]


def test_verify_is_status_1_with_each_key_that_differs_or_should_not_be(run: Run, client: redis.Redis) -> None:
    (key,) = (key.decode() for key in client.scan_iter(match="{metrics:*}:numbers:1", count=10_000))
    before = client.dump(key) or b""
    client.hset(key, "another", 1)
    client.mset(dict.fromkeys(STRAY, "?"))
    try:
        [report] = answer(run("verify", "metrics", "--json"), 1)
        text = run("verify", "metrics")
    finally:
        client.restore(key, 0, before, replace=True)
        client.delete(*STRAY)
    places = [difference["place"].partition(" ")[0] for difference in report["differences"]]
    assert sorted(places) == sorted([key, *STRAY])
    assert (text.exit_code, key in text.stdout) == (1, True)


def faults(reports: list[dict[str, Any]]) -> str:
    [report] = reports
    assert report["differences"] == []
    return "; ".join(report["faults"])


def test_verify_of_a_state_that_is_not_there_is_status_1_unless_it_may_be_empty(driving: Driving, run: Run) -> None:
    said = faults(answer(run("verify", "metrics", "--json", NAME="metricz"), 1))
    assert said == "nothing is stored of metricz; correct STREAMSTATE_NAME or STREAMSTATE_REDIS, or say --may-be-empty"
    assert faults(answer(run("verify", "metrics", "--json", "--may-be-empty", NAME="metricz"))) == ""
    # Another Redis than the streams'.
    reports = answer(run("verify", "--json", REDIS=f"redis://127.0.0.1:{driving.cluster.redis.port}/5"), 1)
    assert {report["service"] for report in reports} >= {"metrics", "names"}
    assert all("not write to this Redis" in report["faults"][0] for report in reports)


def test_a_service_that_is_refused_does_not_keep_others_from_being_counted(run: Run, client: redis.Redis) -> None:
    client.hset("{clicks:0}", "format", 99)
    try:
        reports = {report["service"]: report for report in answer(run("verify", "clicks", "names", "--json"), 1)}
        assert "has the format 99" in reports["clicks"]["faults"][0]
        assert reports["names"]["records"] > 0
    finally:
        client.hset("{clicks:0}", "format", FORMAT)


@pytest.mark.parametrize("spoilt", [{"begun": 10**6}, {"fold:listening-events-enriched": "another"}], ids=str)
def test_a_command_that_is_printed_runs_as_printed(run: Run, client: redis.Redis, spoilt: Any) -> None:
    """In a shell that knows nothing, of a deployment under another name and over another topic."""
    topic = "listening-events-enriched"
    client.hset("{spoilt:3}", mapping={"owner": "a:1", "epoch": 1, **spoilt})
    topics = json.dumps({"listening-events": topic})
    try:
        [report] = answer(run("status", "metrics", "--json", NAME="spoilt", TOPICS=topics), 1)
        commands = re.findall("`([^`]*streamstate [^`]*)`", "".join(report["faults"]))
        assert all("STREAMSTATE_NAME=spoilt " in command for command in commands)
        environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("STREAMSTATE_REDIS_")}
        ran = subprocess.run(
            f"{commands[-1]} --dry-run", shell=True, env=environment, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "spoilt" in ran.stdout
    finally:
        client.delete("{spoilt:3}")


def test_a_state_that_a_gateway_answers_from_is_not_deleted_by_mistake(driving: Driving, run: Run) -> None:
    refused = run("reset", "metrics", "--yes")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"the gateway {driving.cluster.url} answers from 8 partitions of the state" in refused.stderr
    unasked = run("reset", "metrics", "--partition", "2", "--yes", GATEWAY="http://127.0.0.1:1")
    assert unasked.exit_code == 1
    assert "set STREAMSTATE_GATEWAY to the gateway" in unasked.stderr
    assert len(answer(run("owners", "metrics", "--json"))["metrics"]) == 8
    assert driving.differences("metrics") == []


def test_a_state_that_no_stream_makes_is_status_1_with_what_to_do(run: Run) -> None:
    [report] = answer(run("status", "metrics", "--json", NAME="nobody"), 1)
    assert report["service"] == "nobody"
    advice = "start one, or correct STREAMSTATE_NAME or STREAMSTATE_GROUP"
    assert report["faults"] == [f"no stream runs in the consumer group nobody; {advice}"]
    assert "nobody: no stream runs" in run("status", "metrics", NAME="nobody").stdout


PAGES = ("operations", "rebuild", "back-up", "runbooks")
HARMLESS = "status|owners|verify|lag|route|config|dlq list|reset .*--dry-run"
READS = re.compile(rf"(?:^|-- |`)streamstate ((?:{HARMLESS})[^`\n#]*)", re.MULTILINE)
TYPED = {typed.strip() for page in PAGES for typed in READS.findall(Path(f"docs/{page}.md").read_text())}


# What has a name in capitals or brackets stands for something else, and --watch does not end. Other tests verify all.
@pytest.mark.parametrize(
    "typed",
    sorted(each for each in TYPED - {"verify"} if re.fullmatch('[a-z0-9 ="-]+', each) and "watch" not in each),
)
def test_what_the_documents_type_works(run: Run, typed: str) -> None:
    result = run(*shlex.split(typed))
    assert result.exit_code == 0, result.output


def test_what_is_fed_is_folded(driving: Driving, run: Run, tmp_path: Path) -> None:
    user, artist, seconds = 8_000_001, 8_000_002, 1_400_000_000
    files = {"artists": [artist, "Burial"], "albums": [1, "Untrue", artist], "tracks": [1, "Archangel", artist]}
    for kind, columns in (files | {"LEs": [user, artist, 1, 1, seconds]}).items():
        (tmp_path / f"LFM-1b_{kind}.txt").write_text("\t".join(map(str, columns)) + "\n")
    fed = answer(run("feed", "--lfm", str(tmp_path), "--json"))
    assert (fed["names"], fed["events"]) == (3, 1)
    driving.settle()
    profile = answer(run("get", str(user), "--json"))
    assert (profile["eventCount"], profile["topTenArtists"][0]["name"]) == (1, "Burial")
    assert "Burial" in run("get", str(user)).stdout


def test_invented_events_come_at_a_rate_until_there_are_enough(driving: Driving, run: Run) -> None:
    fed = answer(run("feed", "--events", "200", "--rate", "100", "--users", "5", "--json"))
    assert fed["events"] == 200
    assert 50 < fed["events_per_s"] <= 101
    driving.settle()
    lags = answer(run("lag", "--json"))
    assert {each["service"] for each in lags} == set(driving.cluster.addresses)
    assert {each["owner"] for each in lags if each["service"] == "metrics"} == set(driving.cluster.addresses["metrics"])


def test_a_profile_is_checked_and_planned_by_the_topic(driving: Driving, run: Run) -> None:
    file = "services/profile/habits.yaml"
    checked = answer(run("profile", "check", file, "--records", "500", "--json"))["dry_run"]
    assert checked["records"] == 500
    assert checked["measures"]["plays"] + sum(checked["refused"].values()) == 500
    plan = answer(run("profile", "plan", file, "--records", "1000", "--json"))
    assert plan["sampled"] > 0 < plan["window_bytes"]
    with redis.Redis(port=driving.cluster.redis.port) as client:
        assert not list(client.scan_iter(match="{habits.*", count=10_000))


def test_totals_that_are_too_high_are_corrected(driving: Driving, run: Run) -> None:
    """Also that of a region that the state does not have; the stream goes on publishing."""

    def last() -> dict[str, int]:
        return {(each.key() or b"").decode(): int(each.value() or 0) for each in driving.read(CLICKS_PER_REGION)}

    driving.out.produce(USER_CLICKS, b"3", b"a user")
    driving.out.flush()
    driving.settle()
    totals = driving.regions()
    until(lambda: last() == totals, "the totals of the state")
    for region, total in ((UNKNOWN, 2**50), ("nowhere", 7)):
        driving.out.produce(CLICKS_PER_REGION, b"%d" % total, region)
    driving.out.flush()
    corrected = answer(run("reset", "clicks", "--totals", "--yes", "--json"))
    assert {each["field"]: (each["published"], each["total"]) for each in corrected} == {
        "nowhere": (7, None),
        UNKNOWN: (2**50, totals[UNKNOWN]),
    }
    until(lambda: last() == totals | {"nowhere": 0}, "the totals of the state")
    driving.out.produce(USER_CLICKS, b"5", b"a user")
    driving.out.flush()
    until(lambda: last()[UNKNOWN] == totals[UNKNOWN] + 5, "the next total")
