"""What commands find in Redis: each deployment, as its streams have stored it, and the live release of a service."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import typer
import yaml
from typer.testing import CliRunner

from devkit.servers.child_process import free_port
from devkit.servers.redis import Redis
from services.profile.settings import HABITS
from streamstate import bootstrap
from streamstate.app import App
from streamstate.cli import status as state
from streamstate.cli.answers import replay as replaying
from streamstate.cli.answers import training
from streamstate.cli.answers import unload as unloading
from streamstate.cli.main import app
from streamstate.cli.releases.live import followed
from streamstate.cli.services import Deployment, deployment, deployments, environment
from streamstate.errors import Misconfigured
from streamstate.profile import file, profile_app
from streamstate.releases.pointer import Pointer
from streamstate.releases.record import Releases, dropping, first, handed_over, handing_over, staged, switched
from streamstate.settings import CommandSettings, load
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client, connect
from streamstate.state.redis_reads import live_key
from tests.laws.test_app_laws import APPS

NEXT = "habits-2"


@pytest.fixture
def client(redis_server: Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """An empty database, which is the commands'."""
    url = f"redis://127.0.0.1:{redis_server.port}/8"
    monkeypatch.setenv("STREAMSTATE_REDIS", url)
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield client


def run_stream(package: str, **settings: str) -> App:
    """Store what a stream with these settings stores at its start."""
    with environment(settings):
        own = load(CommandSettings)
        made = bootstrap.app(package, own)
        bootstrap.deployments(own).store(made.name, bootstrap.recorded(made))
    return made


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A declaration of the same profile with a measure less."""
    declared = yaml.safe_load(HABITS.read_text())
    declared["measures"].pop(next(iter(declared["measures"])))
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


@pytest.fixture
def both(client: redis.Redis, changed: Path) -> tuple[App, App]:
    """Two releases of a profile, of whose second the file is gone."""
    assert client.dbsize() == 0
    made = run_stream("services.profile"), run_stream("services.profile", **_second(changed))
    changed.unlink()
    return made


def _second(path: Path) -> dict[str, str]:
    return {"NAME": NEXT, "RELEASE_OF": "habits", "PROFILE": str(path)}


def promote(client: redis.Redis, release: str = NEXT) -> Releases:
    """Both releases, of which `release` is live."""
    begun = handing_over(switched(staged(first("habits"), NEXT), release))
    return put(client, handed_over(begun, {}, {}))


def put(client: redis.Redis, record: Releases) -> Releases:
    pointer = Pointer(client, "habits")
    pointer.replace(pointer.read(), record)
    return record


def test_each_profile_and_release_is_found_with_its_declaration(both: tuple[App, App], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(HABITS.read_text().replace("habits", "evenings"))
    evenings = run_stream("services.profile", PROFILE=str(tmp_path / "mine.yaml"), TOPICS='{"evenings-dlq": "letters"}')
    # Of another deployment: what a stream has not stored is not of its app.
    with environment({"TOPICS": '{"listening-events": "others"}', "PROFILE": str(tmp_path / "none.yaml")}):
        found = {of.app.name: of for of in deployments(load(CommandSettings), ["habits", NEXT, "evenings"])}
    for made in (*both, evenings):
        of = found[made.name].app
        assert (of.declarations, of.dead_letters, of.release_of) == (
            made.declarations,
            made.dead_letters,
            made.release_of,
        )
    assert both[0].declarations != both[1].declarations
    assert {of.app.name for of in deployments(load(CommandSettings))} > {*found, "metrics", "names"}


@pytest.mark.parametrize("name", [name for name, of in APPS.items() if of.variables])
def test_a_stored_declaration_makes_the_same_app(name: str) -> None:
    made = profile_app(file.read(APPS[name].variables["PROFILE"]))
    assert (made.declarations, made.variables) == (APPS[name].declarations, APPS[name].variables)
    assert [view.path for view in made.views] == [view.path for view in APPS[name].views]


@pytest.mark.usefixtures("both")
def test_a_printed_command_runs_where_nothing_else_is_set() -> None:
    printed = deployment(NEXT).commands.complete("`streamstate acl redis SERVICE`").strip("`")
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(shlex.split(f"env {printed}"), env=environment, capture_output=True, text=True, check=False)
    assert f"~{{{NEXT}:*" in ran.stdout, ran.stderr


@pytest.mark.usefixtures("both")
def test_a_name_that_nobody_has_stored_is_refused_with_those_there_are() -> None:
    with pytest.raises(typer.BadParameter, match=f"there is no service evenings; there are clicks, .*, habits, {NEXT}"):
        deployment("evenings")


@pytest.mark.usefixtures("client")
def test_a_deployment_of_code_that_is_not_here_is_left_out_aloud(capsys: Any) -> None:
    run_stream("tests.integration.emitting")
    assert "emitting" not in {of.app.name for of in deployments(load(CommandSettings))}
    assert "emitting is left out" in capsys.readouterr().err


def test_a_saved_state_that_no_stream_has_stored_is_not_left_out_silently(tmp_path: Path) -> None:
    server = Redis(tmp_path / "redis", free_port())
    server.start()
    try:
        with connect(server.url, 5.0) as client:
            made_by(client, "lost", {})
            client.save()
        file = next((tmp_path / "redis").rglob("*.rdb"))
        result = CliRunner().invoke(app, ["restore", str(file), "--dry-run"], env={"STREAMSTATE_REDIS": server.url})
    finally:
        server.stop()
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the backup has lost, whose service is unknown to the backup and to Redis" in result.stderr


@pytest.mark.usefixtures("both")
def test_a_dropped_deployment_is_forgotten() -> None:
    bootstrap.deployments(load(CommandSettings)).delete(NEXT)
    with pytest.raises(typer.BadParameter):
        deployment(NEXT)


def test_the_live_release_is_followed_with_its_own_declaration(client: redis.Redis, both: tuple[App, App]) -> None:
    promote(client)
    for service in ("habits", "profile"):
        after = followed(deployment(service))
        assert (after.app.name, after.app.release_of, after.app.group) == (NEXT, "habits", NEXT)
        assert after.app.declarations == both[1].declarations
        assert after.app.dead_letters == "habits-dlq"


@pytest.mark.usefixtures("both")
def test_without_a_promotion_and_for_a_named_release_nothing_is_followed(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    for record in (first("habits"), staged(first("habits"), NEXT)):
        put(client, record)
        assert followed(deployment("habits")).app.name == "habits"
    record = promote(client)
    assert followed(deployment(NEXT)).app.name == NEXT
    monkeypatch.setenv("STREAMSTATE_NAME", "habits")
    assert followed(deployment("profile")).app.name == "habits"
    put(client, dropping(record, "habits"))
    with pytest.raises(Misconfigured, match=f"habits is no release of habits: {NEXT} is live") as refused:
        followed(deployment("profile"))
    assert f"set STREAMSTATE_NAME={NEXT} STREAMSTATE_RELEASE_OF=habits" in str(refused.value)


def test_a_live_release_that_nobody_has_stored_is_refused_with_what_to_do(client: redis.Redis) -> None:
    promote(client)
    with pytest.raises(Misconfigured, match=f"no stream of {NEXT} has stored its settings: start one"):
        followed(deployment("profile"))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The releases whose states `unload` reads, which ends there."""
    found: list[str] = []

    def files(of: Any, _saved: object) -> Any:
        found.append(of.app.name)
        msg = "enough"
        raise Misconfigured(msg)

    monkeypatch.setattr(unloading, "_files", files)
    return found


@pytest.mark.usefixtures("both")
def test_unload_exports_the_state_of_the_live_release(
    client: redis.Redis, read: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    promote(client)
    assert CliRunner().invoke(app, ["unload", "habits", "habits", "--to", str(tmp_path)]).exit_code == 3
    for name, status in (("habits", 0), (NEXT, 3)):
        monkeypatch.setenv("STREAMSTATE_NAME", name)
        monkeypatch.setenv("STREAMSTATE_RELEASE_OF", "" if name == "habits" else "habits")
        result = CliRunner().invoke(app, ["unload", "profile", "habits", "--if-live", "--to", str(tmp_path)])
        assert result.exit_code == status
        assert ("habits is not live: the answers are those of habits-2" in result.stdout) == (status == 0)
    assert read == [NEXT, NEXT]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[Deployment]:
    """The deployments whose answers `replay` prints. Topics have one partition."""
    found: list[Deployment] = []

    def answers(of: Deployment, *_: object) -> list[object]:
        found.append(of)
        return []

    monkeypatch.setattr(replaying, "_answers", answers)
    monkeypatch.setattr(Deployment, "topics", SimpleNamespace(widest=lambda _topics: 1))
    return found


def made_by(client: Client, name: str, folds: Mapping[str, str]) -> None:
    RedisStore(client, name).claim(0, "127.0.0.1:1", {}, folds=folds)


REPLAY = ["replay", "profile", "habits", "1", "--at", "2026-01-01"]


def test_replay_folds_with_the_settings_of_the_live_release(
    client: redis.Redis, both: tuple[App, App], answered: list[Deployment]
) -> None:
    promote(client)
    made_by(client, NEXT, both[1].declarations)
    result = CliRunner().invoke(app, REPLAY)
    assert result.exit_code == 0, result.output
    [of] = answered
    assert of.app.declarations == both[1].declarations
    [view] = (view for view in of.app.views if view.name == "habits")
    assert training.task(of, view, {}, "to").variables["STREAMSTATE_PROFILE"] == both[1].variables["PROFILE"]


def test_replay_refuses_settings_that_are_not_of_the_state_and_names_the_difference(
    client: redis.Redis, changed: Path, answered: list[Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by(client, "habits", deployment("profile").app.declarations)
    assert CliRunner().invoke(app, REPLAY).exit_code == 0
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(changed))
    result = CliRunner().invoke(app, REPLAY)
    assert result.exit_code == 3, result.output
    assert 'measures.plays.count: "all", now absent' in result.stderr
    assert result.stderr.endswith("): set the variables of its deployment\n")
    assert len(answered) == 1


def test_replay_without_redis_folds_with_its_own_settings_and_says_so(answered: list[Deployment]) -> None:
    result = CliRunner().invoke(app, REPLAY, env={"STREAMSTATE_REDIS": "redis://127.0.0.1:1"})
    assert result.exit_code == 0, result.output
    assert "Redis cannot be read" in result.stderr
    assert "the settings of the environment apply" in result.stderr
    assert [of.app.name for of in answered] == ["habits"]


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("service", ["profile", "habits"])
def test_the_watched_status_follows_a_promotion(
    service: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: Iterator[Callable[[], object]] = iter(
        [lambda: None, lambda: promote(client), lambda: None, lambda: promote(client, "habits")]
    )
    looked: list[Deployment] = []

    def pause(_seconds: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(state, "observe", looked.append)
    monkeypatch.setattr(state, "_report", lambda of, _seen: of)
    monkeypatch.setattr(state, "_overview", lambda reports: " ".join(of.app.name for of in reports))
    monkeypatch.setattr(state, "time", SimpleNamespace(sleep=pause))
    result = CliRunner().invoke(app, ["status", service, "--watch"])
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == ["habits", "habits", NEXT, NEXT, "habits"]
    assert looked[2] is looked[3], "a release that stays live is not connected again"


def test_a_release_publishes_nothing_after_the_loss_of_the_record_until_it_starts_again(client: redis.Redis) -> None:
    """By itself, the first release would take all outputs for its own, and be ahead of the release that publishes."""
    promote(client)
    pointer = Pointer(client, "habits")
    pointer.may_publish("habits")
    client.delete(live_key("habits"))
    with pytest.raises(Misconfigured, match="the record of the releases of habits is lost: restore it"):
        pointer.may_publish("habits")
