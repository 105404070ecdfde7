"""Backups of a Redis, restored beside streams and APIs, then compared with the topics."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
import urllib3
from typer.testing import CliRunner, Result

from devkit import topics
from devkit.cluster.local_cluster import variables
from devkit.servers.child_process import LOCALHOST, free_port
from streamstate import bootstrap
from streamstate.cli.main import app
from streamstate.cli.services import deployments
from streamstate.deployment.scratch import LOCK
from streamstate.history.backup.manifest import NAME, PARTIAL
from streamstate.releases.command_lock import command_lock
from streamstate.settings import CommandSettings, load
from streamstate.state.redis_reads import lock_key, tag
from streamstate.web.http.request import POSITION
from tests.deployment import USER, Deployment
from tests.serving import sample, scraped
from tests.waiting import REQUEST_S, until, until_equal

ERASED = 8
BEFORE = 5
"""Records of the erased user, the first of the topic."""


@pytest.fixture
def played(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """With a stream that has folded a hundred records."""
    deletions = f"{deployment.name}-deletions"
    topics.create(deployment.cluster.kafka.bootstrap, {deletions: {"cleanup.policy": "compact"}}, 1)
    monkeypatch.setenv("STREAMSTATE_DELETIONS", deletions)
    deployment.put(*[0] * BEFORE, user=ERASED)
    deployment.send(100 - BEFORE)
    deployment.stream(DELETIONS=deletions)
    deployment.folded(100)
    return deployment


def run(of: Deployment, *arguments: str, typed: str = "", **settings: str) -> Result:
    return CliRunner().invoke(app, arguments, env=variables({**of.settings, **settings}), input=typed)


def answer(of: Deployment, *arguments: str, **settings: str) -> Any:
    result = run(of, *arguments, "--json", **settings)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def backup(of: Deployment, parent: Path) -> str:
    return str(answer(of, "backup", str(parent))["folder"])


def erase(of: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Request the deletion of the user, and wait for the stream."""
    with monkeypatch.context() as patch:
        for name, value in variables(of.settings).items():
            patch.setenv(name, value)
        [own] = deployments(load(CommandSettings), ["metrics"])
        deletions = bootstrap.deletions(own.settings, own.topics)
        assert deletions
        deletions.request(own.app, str(ERASED))
    until_equal(lambda: of.client.exists(f"{tag(of.name, 0)}:numbers:{ERASED}"), 0, "the user to be deleted")


@contextmanager
def reading(address: str) -> Iterator[Callable[[], list[int]]]:
    """Compare answers with their positions in the body; the statuses so far."""
    stop, statuses = Event(), list[int]()

    def read() -> None:
        while not stop.is_set():
            for user in (USER, ERASED):
                got = urllib3.request(
                    "GET", f"http://{address}/v1/users/{user}/metrics", timeout=REQUEST_S, retries=False
                )
                assert got.status in ({200, 503} if user == USER else {404, 503}), got.data
                if got.status == 200:
                    position = int(got.headers[POSITION].rpartition("=")[2])
                    assert got.json()["eventCount"] == position - BEFORE
                statuses.append(got.status)

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            yield lambda: list(statuses)
        finally:
            stop.set()
        reader.result()


def test_a_state_is_restored_beside_its_stream_and_erased_users_stay_erased(
    played: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = played.api()
    metric = "streamstate_last_backup_timestamp_seconds"
    assert sample(scraped(address), metric) is None
    folder = backup(played, tmp_path)
    manifest = json.loads((Path(folder) / NAME).read_bytes())
    assert manifest["services"][played.name]["positions"] == {played.topic: {"0": 100}}
    assert (sample(scraped(address), metric) or 0) > 1_700_000_000
    erase(played, monkeypatch)
    played.send(50)
    played.folded(150)
    with reading(address) as statuses:
        until(lambda: statuses().count(200) > 5, "answers")
        [restored] = answer(played, "restore", folder, "metrics", "--yes")
        assert restored["partitions"] == [
            {"partition": 0, "positions": {played.topic: 100}, "replaces": {played.topic: 150}}
        ]
        played.send(10)
        played.folded(160)
        before = len(statuses())
        until(lambda: statuses()[before:].count(200) > 5, "answers")
    assert played.command("verify", status=0)["differences"] == []
    assert played.snapshot().values[0]["#"] == 160 - BEFORE


def test_a_killed_restore_leaves_the_partition_refused_and_no_redis_server(played: Deployment, tmp_path: Path) -> None:
    folder = backup(played, tmp_path)
    # Their deletion takes a while.
    for start in range(0, 100_000, 10_000):
        played.client.mset({f"{tag(played.name, 0)}:{number}": "" for number in range(start, start + 10_000)})
    argv = [sys.executable, "-m", "streamstate.cli.main", "restore", folder, "metrics", "--yes"]
    environment = {**os.environ, **variables(played.settings)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: played.store.half_commit(0) is not None, "the restore to begin")
        servers = psutil.Process(process.pid).children()
        process.kill()
    assert [server.name() for server in servers] == ["redis-server"]
    psutil.wait_procs(servers, 10)
    assert not any(server.is_running() and server.status() != psutil.STATUS_ZOMBIE for server in servers)
    address = played.api()
    got = urllib3.request("GET", f"http://{address}/v1/users/{USER}/metrics", timeout=REQUEST_S, retries=False)
    assert (got.status, got.json()["type"].rpartition(":")[2]) == (503, "not-ready")
    assert "run the restore again" in str(played.command("status", status=1)["faults"])
    until(lambda: not played.client.exists(lock_key(played.name)), "the lock of the killed command to end")
    [file] = Path(folder).glob("*.rdb")
    [restored] = answer(played, "restore", str(file), "metrics", "--yes")
    assert restored["partitions"][0]["replaces"] is None
    played.send(1)
    played.folded(101)
    assert played.command("verify", status=0)["differences"] == []


def refusal(of: Deployment, *arguments: str, typed: str = "", **settings: str) -> str:
    result = run(of, *arguments, typed=typed, **settings)
    assert result.exit_code == 1, result.output
    return " ".join(result.output.split())


def test_a_backup_that_does_not_fit_is_refused_before_any_change(played: Deployment, tmp_path: Path) -> None:
    folder = backup(played, tmp_path)
    topic, own = played.topic, tag(played.name, 0)
    held: dict[Any, Any] = played.client.hgetall(own)
    for field, value, reason in (
        (f"origin:{topic}", "another/1", f"{topic} was deleted and made anew"),
        (f"origin:{topic}", held[f"origin:{topic}".encode()].decode().replace("/1", "/3"), "had 3 when"),
        (f"fold:{topic}", "another", "was made by another fold"),
        ("format", "99", "has the format 99"),
        (f"offset:{topic}", "999", "ends at offset 100, and the state stands at 999"),
        ("begun", "999", "is saved with half a commit"),
    ):
        played.client.hset(own, field, value)
        unfit = backup(played, tmp_path / field.replace(":", "-") / value.replace("/", "-"))
        played.client.hset(own, field, held[field.encode()])
        assert reason in refusal(played, "restore", unfit, "metrics", "--yes")
    assert "has no state of partition 5 of" in refusal(
        played, "restore", folder, "metrics", "--partition", "5", "--yes"
    )
    assert "has no state of" in refusal(played, "restore", folder, "metrics", "--yes", NAME="another")
    assert f"the newest backup there is {folder}" in refusal(played, "restore", str(tmp_path), "metrics")
    assert "was interrupted" in refusal(played, "restore", str(tmp_path / ".partial" / "x"), "metrics")
    assert "--partition is of one service" in run(played, "restore", folder, "--partition", "0").output
    assert "Replace the present state?" in refusal(played, "restore", folder, "metrics", typed="n")
    with command_lock(played.client, played.name, "promote"):
        assert f"`streamstate promote` has changed {played.name} since" in refusal(played, "restore", folder, "metrics")
    played.send(3)
    played.folded(103)
    [planned] = answer(played, "restore", folder, "metrics", "--dry-run")
    assert planned["dry_run"]
    text = run(played, "restore", folder, "metrics", "--dry-run").stdout
    assert text.splitlines()[2].split() == ["0", topic, "100", topic, "103", "3"]
    assert played.position() == 103
    next(Path(folder).glob("*.rdb")).unlink()
    assert "is missing; take another backup" in refusal(played, "restore", folder, "metrics")


def test_an_interrupted_backup_is_none(played: Deployment, tmp_path: Path) -> None:
    left = tmp_path / PARTIAL / "killed"
    left.mkdir(parents=True)
    (left / "redis.rdb").touch()
    (left / LOCK).touch()
    result = run(played, "backup", str(tmp_path))
    assert result.exit_code == 0, result.output
    [folder] = (each for each in tmp_path.iterdir() if each.name != PARTIAL)
    assert not left.exists()
    assert f"`streamstate restore {folder} --dry-run`" in result.stdout
    assert folder.stat().st_mode & 0o777 == 0o700
    manifest = json.loads((folder / NAME).read_bytes())
    assert sorted(each.name for each in folder.iterdir()) == sorted([NAME, *manifest["files"]])
    closed = f"redis://{LOCALHOST}:{free_port()}"
    assert "redis-cli gets no snapshot" in run(played, "backup", str(tmp_path), REDIS=closed).output
    assert [each.name for each in tmp_path.rglob("*.rdb")] == manifest["files"]
