"""The command: its output, and its exit statuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from typer.testing import CliRunner, Result

from streamstate.cli.main import app
from streamstate.cli.output import failing
from streamstate.cli.services import deployments, packages
from streamstate.errors import Misconfigured, StreamStateError
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import batch
from streamstate.history.archive.segments import Segment
from streamstate.settings import CommandSettings
from tests.commands import failed


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("STREAMSTATE_"):
            monkeypatch.delenv(name)


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, arguments, env={f"STREAMSTATE_{name}": text for name, text in environment.items()})


def settings(*arguments: str, **environment: str) -> dict[str, tuple[str, bool]]:
    result = run("config", "--json", *arguments, **environment)
    assert result.exit_code == 0, result.output
    return {entry["variable"]: (entry["value"], entry["default"]) for entry in json.loads(result.stdout)}


def test_config_tells_every_setting_and_whether_it_is_set() -> None:
    told = settings(KAFKA="kafka:9092", GRACE_MS="7")
    assert told["STREAMSTATE_KAFKA"] == ("kafka:9092", False)
    assert told["STREAMSTATE_GRACE_MS"] == ("7", False)
    assert told["STREAMSTATE_SLOTS"] == ("2", True)
    assert told["STREAMSTATE_TRUNCATED_TOPICS"] == ("[]", True)


@pytest.mark.parametrize(
    ("name", "text"),
    [("GATEWAY_KEY", "hidden"), ("SPARK", '{"spark.ssl.keyPassword": "hidden", "spark.executor.cores": "2"}')],
)
def test_config_masks_secrets(name: str, text: str) -> None:
    told = run("config", "--json", **{name: text}).stdout
    assert "***" in told
    assert "hidden" not in told
    assert "hidden" not in run("config", **{name: text}).stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("KAFKA_PASSWORD", "hidden"),
        ("REDIS", "redis://user:hidden@redis:6379/0"),
        ("REDIS", "redis://:hidden@redis:6379/0"),
        ("REDIS", "rediss://redis:6379/0?password=hidden&ssl_ca_certs=/ca"),
        ("REDIS", "redis+sentinel://:hidden@redis:26379/primary"),
        ("REGISTRY", "https://user:hidden@registry:8081"),
        ("LIMITS_REDIS", "redis://user:hidden@redis:6379/0"),
        ("KAFKA_TOKEN_URL", "https://user:hidden@issuer/token"),
    ],
)
def test_a_password_that_is_no_file_is_refused_and_not_repeated(name: str, text: str) -> None:
    told = failed(run("config", **{name: text}), 3)
    assert f"STREAMSTATE_{name}" in told
    assert "hidden" not in told


def test_a_server_that_is_away_is_status_4_with_its_setting() -> None:
    """The environment is that of the stream, the API and the gateway of several services."""
    others = {"GRACE_MS": "1", "WALKERS": "1", "INSTANCES": "{}", "SLOTS": "1", "DEMANDS_WAITING": "1", "MASTER": ""}
    assert "STREAMSTATE_REDIS" in failed(run("reset", "metrics", REDIS="redis://127.0.0.1:1/0", **others), 4)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (StreamStateError("two\nlines"), 1, "two lines"),
        (Misconfigured("a setting"), 3, "a setting"),
        (RedisError("away"), 4, "(away)"),
        (NoPermissionError("user has no permissions"), 1, "Redis refuses: user has no permissions"),
        (AuthenticationError("invalid password"), 1, "Redis refuses"),
        (ResponseError("MISCONF unable to persist to disk"), 1, "Redis refuses: MISCONF"),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "")), 1, "Kafka refuses"),
        (KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "")), 4, "COORDINATOR_NOT_AVAILABLE"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_an_expected_error_is_one_line_and_a_status(
    error: Exception, status: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, failing():
        raise error
    assert ended.value.exit_code == status
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("streamstate: ")
    assert reason in line


def test_a_service_that_there_is_not_is_status_2_with_those_there_are() -> None:
    result = run("status", "metric", REDIS="redis://127.0.0.1:1/0")
    assert result.exit_code == 2
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "there is no service metric; there are clicks, " in said
    assert "perhaps others in Redis, which does not answer" in said


def test_a_command_that_needs_services_says_where_to_run_it(tmp_path: Path) -> None:
    """With the library alone, and the services of somebody else."""
    command = [sys.executable, "-P", "-m", "streamstate.cli.main", "feed", "--events", "1"]
    environment = {**os.environ, "STREAMSTATE_PACKAGE": "json"}
    result = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (3, "")
    assert "in the project's folder" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "priority"), [("status metrics", os.nice(0)), ("unload metrics metrics --to answers", 19)]
)
def test_commands_that_read_whole_states_leave_the_cores_to_others(
    arguments: str, priority: int, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("import os\nprint(os.nice(0))")
    command = [sys.executable, "-m", "streamstate.cli.main", *arguments.split()]
    environment = {**os.environ, "STREAMSTATE_PACKAGE": "own"}
    result = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert result.stdout == f"{priority}\n"


def test_the_command_starts_in_an_image_of_streams() -> None:
    absent = ("pyspark", "pandas", "pyarrow", "numpy", "flask", "werkzeug", "gunicorn", "uvloop", "strictasgi")
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); import streamstate.cli.main"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", ["nowhere", "services.gateway"])
def test_a_package_without_services_is_status_3(package: str) -> None:
    assert "STREAMSTATE_PACKAGE" in failed(run("status", PACKAGE=package), 3)


def test_an_app_has_the_name_and_the_topics_of_its_deployment() -> None:
    given = {"package": "services.metrics", "name": "eu", "topics": {"listening-events": "events-eu"}}
    [of] = deployments(CommandSettings.model_validate(given))
    assert (of.app.name, of.app.topics) == ("eu", ("events-eu",))


@pytest.mark.parametrize(("typed", "offered"), [("streamstate status me", {"metrics"}), ("streamstate fe", {"feed"})])
def test_a_shell_completes_commands_and_services(typed: str, offered: set[str]) -> None:
    words = typed.split()
    asked = {"_STREAMSTATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    completed = CliRunner().invoke(app, [], prog_name="streamstate", env=asked)
    assert set(completed.stdout.split()) == offered


def test_a_name_of_a_deployment_is_that_of_one_service() -> None:
    with pytest.raises(Misconfigured, match="STREAMSTATE_NAME=eu"):
        deployments(CommandSettings.model_validate({"name": "eu"}))


def test_a_service_outside_the_library_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine" / "orders"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder.parent / "__init__.py").touch()
    (folder / "model.py").write_text('from streamstate.app import App\nAPP = App("orders", ())\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert packages(CommandSettings.model_validate({"package": "mine"})) == {"orders": "mine.orders"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("skip", "metrics", "another", "0", "0", "--reason", "why"), "it reads listening-events"),
        (("skip", "metrics", "listening-events", "-1", "0", "--reason", "why"), "-1"),
        (("allow", "metrics", "listening-events", "--reason", " "), "--reason needs"),
        (("allow", "metrics", "listening-events"), "--reason"),
        (("reset", "metrics", "--totals", "--partition", "0"), "--totals are of all partitions"),
        (("dlq", "replay", "metrics", "--offset", "3"), "--offset needs --partition"),
        (("status", "--watch", "--json"), "--watch is for people"),
    ],
)
def test_a_change_that_is_asked_for_wrongly_is_status_2(arguments: tuple[str, ...], reason: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr


def test_a_release_is_staged_with_settings_that_exist() -> None:
    said = failed(run("stage", "metrics", "--set", "GRACE_MSS=1"), 3)
    assert said.endswith("correct --set GRACE_MSS=: GRACE_MSS (unknown; did you mean GRACE_MS?)")
    result = run("stage", "metrics", "--set", "GRACE_MS")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "write NAME=VALUE" in result.stderr


@pytest.mark.parametrize("command", ["stage", "wait", "diff", "promote", "back", "drop", "releases"])
def test_a_command_about_releases_needs_redis(command: str) -> None:
    said = failed(run(command, "metrics", REDIS="redis://127.0.0.1:1/0", KAFKA="127.0.0.1:1"), 4)
    assert "Redis does not answer" in said


def test_an_archive_with_times_beyond_the_calendar_is_listed(tmp_path: Path) -> None:
    rows = batch([(0, -(10**18), 1, None, None, None), (1, 9 * 10**18, 1, None, None, None)])
    Archive(str(tmp_path)).write(("plays", 0), Segment(0, 1), "id", [rows])
    listed = run("archive", "list", ARCHIVE=str(tmp_path))
    assert (listed.exit_code, listed.stdout.split()[-3:]) == (0, [str(-(10**18)), str(9 * 10**18), "-"])


def test_what_is_no_archive_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for command, name, reason in (
        ("list", "file", "Not a directory"),
        ("list", "none", "there is no archive at"),
        ("verify", "none", "has no files"),
    ):
        assert reason in failed(run("archive", command, ARCHIVE=str(tmp_path / name)), 1)
    (tmp_path / "file").unlink()
    assert run("archive", "list", ARCHIVE=str(tmp_path)).exit_code == 0


def test_rows_of_a_training_set_are_read_before_kafka(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        arguments = ("replay", "metrics", "metrics", "--rows", str(path), "--to", str(tmp_path / "to"))
        result = run(*arguments, REDIS="redis://127.0.0.1:1/0", KAFKA="127.0.0.1:1")
        return " ".join(result.stderr.replace("│", " ").split())

    assert "does not exist" in said(Path("none.csv"))
    (tmp_path / "rows.csv").write_text("key;time\n1;2\n")
    assert "separated by commas" in said(tmp_path / "rows.csv")


def test_a_damaged_file_stops_the_compaction_of_its_partition_alone(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    for partition in (0, 1):
        for offset in (0, 1):
            row = offset, 0, 1, None, None, None
            archive.write(("plays", partition), Segment(offset, offset), "id", [batch([row])])
    (tmp_path / "plays" / "0" / Segment(1, 1).name).write_bytes(b"")
    compacted = run("archive", "compact", ARCHIVE=str(tmp_path), DELETIONS="")
    assert compacted.exit_code == 1
    assert "plays:0 is not compacted" in compacted.stderr
    assert archive.segments(("plays", 1)) == [Segment(0, 1)]
    assert len(archive.segments(("plays", 0))) == 2
