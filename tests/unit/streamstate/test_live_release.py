"""The live release, which commands about the answers of clients follow."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from services.profile.settings import HABITS
from streamstate.cli import status as state
from streamstate.cli.answers import replay as replaying
from streamstate.cli.answers import training
from streamstate.cli.answers import unload as unloading
from streamstate.cli.main import app
from streamstate.cli.releases import live
from streamstate.cli.releases.live import followed
from streamstate.cli.services import Deployment, deployment
from streamstate.errors import Misconfigured
from streamstate.releases import file
from streamstate.releases.record import Releases, dropped, first, next_write, staged
from streamstate.state.store import Snapshot

NEXT = "habits-2"


def promoted(record: Releases, release: str) -> Releases:
    while (after := next_write(record, release, {})) is not None:
        record = after
    return record


BOTH = promoted(staged(first("habits"), NEXT), NEXT)
LEFT = dropped(BOTH, "habits")


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A declaration of the same profile with a measure less."""
    declared = yaml.safe_load(HABITS.read_text())
    declared["measures"].pop(next(iter(declared["measures"])))
    path = tmp_path / "changed.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of releases, as the commands find it."""
    monkeypatch.setenv("STREAMSTATE_RELEASES", str(tmp_path / "releases.json"))
    return tmp_path / "releases.json"


def profile(record: Releases | None = BOTH) -> Deployment:
    of = deployment("profile")
    of.__dict__["pointer"] = SimpleNamespace(read=lambda: record)
    return of


def test_the_live_release_is_followed_with_the_settings_that_it_was_staged_with(changed: Path, releases: Path) -> None:
    own = {"NAME": NEXT, "RELEASE_OF": "habits", "PROFILE": str(changed)}
    file.write(releases, {"habits": {NEXT: file.ByHand("127.0.0.1:1", "services.profile", own)}})
    before, after = profile(), followed(profile())
    assert (after.app.name, after.app.release_of, after.app.group) == (NEXT, "habits", NEXT)
    assert after.app.declarations != before.app.declarations
    assert after.recounted.service == NEXT
    told = after.commands.complete("`streamstate verify SERVICE`")
    assert f"STREAMSTATE_NAME={NEXT} " in told
    assert f"STREAMSTATE_PROFILE={changed} " in told
    assert "NAME" not in before.commands.complete("`streamstate verify SERVICE`")
    assert after.recounted.dead_letters == "habits-dlq"


def test_without_a_promotion_and_for_a_named_release_nothing_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    for record in (None, first("habits"), staged(first("habits"), NEXT), promoted(BOTH, "habits")):
        of = profile(record)
        assert followed(of) is of
    monkeypatch.setenv("STREAMSTATE_NAME", "habits")
    of = profile()
    assert followed(of) is of
    with pytest.raises(Misconfigured, match=f"habits is no release of habits: {NEXT} is live") as refused:
        followed(profile(LEFT))
    assert f"set STREAMSTATE_NAME={NEXT} STREAMSTATE_RELEASE_OF=habits" in str(refused.value)


def _with_state(monkeypatch: pytest.MonkeyPatch, folds: dict[str, str], record: Releases | None = LEFT) -> Deployment:
    """The state of the live release was made by `folds`."""
    of = profile(record)
    monkeypatch.setattr(Deployment, "topics", SimpleNamespace(widest=lambda _topics: 1))
    snapshot = Snapshot(None, 0, {}, {}, {}, {}, {}, (), folds=folds)
    monkeypatch.setattr(live, "whole", lambda _store, partitions: (dict.fromkeys(partitions, snapshot), {}))
    return of


def test_without_the_file_of_releases_the_settings_must_be_those_of_the_state(
    changed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = profile().app.declarations
    assert followed(_with_state(monkeypatch, dict(own))).app.name == NEXT
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(changed))
    with pytest.raises(Misconfigured, match=f"the state of {NEXT} was made by another fold") as refused:
        followed(_with_state(monkeypatch, dict(own)))
    for told in (f"{NEXT} is live", f"STREAMSTATE_NAME={NEXT} STREAMSTATE_RELEASE_OF=habits", "STREAMSTATE_RELEASES"):
        assert told in str(refused.value)
    assert "reset" not in str(refused.value)


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


def test_unload_exports_the_state_of_the_live_release(
    read: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of = _with_state(monkeypatch, {})
    monkeypatch.setattr(unloading, "deployment", lambda _service: of)
    assert CliRunner().invoke(app, ["unload", "profile", "habits", "--to", str(tmp_path)]).exit_code == 3
    assert read == [NEXT]


def test_a_job_of_a_release_that_is_not_live_writes_no_file(
    read: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, status in (("habits", 0), (NEXT, 3)):
        monkeypatch.setenv("STREAMSTATE_NAME", name)
        monkeypatch.setenv("STREAMSTATE_RELEASE_OF", "" if name == "habits" else "habits")
        monkeypatch.setattr(unloading, "deployment", lambda _service: profile(BOTH))
        result = CliRunner().invoke(app, ["unload", "profile", "habits", "--if-live", "--to", str(tmp_path)])
        assert result.exit_code == status
        assert ("habits is not live: the answers are those of habits-2" in result.stdout) == (status == 0)
    assert read == [NEXT]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[Deployment]:
    """The deployments whose answers `replay` prints."""
    found: list[Deployment] = []

    def answers(of: Deployment, *_: object) -> list[object]:
        found.append(of)
        return []

    monkeypatch.setattr(replaying, "_answers", answers)
    return found


REPLAY = ["replay", "profile", "habits", "1", "--at", "2026-01-01"]


def test_replay_folds_with_the_settings_of_the_live_release(
    changed: Path, releases: Path, answered: list[Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"NAME": NEXT, "RELEASE_OF": "habits", "PROFILE": str(changed)}
    file.write(releases, {"habits": {NEXT: file.ByHand("127.0.0.1:1", "services.profile", own)}})
    monkeypatch.setattr(replaying, "deployment", lambda _service: profile())
    monkeypatch.setattr(live, "_require_own_state", lambda _of, _advice: None)
    result = CliRunner().invoke(app, REPLAY)
    assert result.exit_code == 0, result.output
    [of] = answered
    assert of.app.declarations == followed(profile()).app.declarations != profile().app.declarations
    [view] = (view for view in of.app.views if view.name == "habits")
    assert training.task(of, view, {}, "to").variables["STREAMSTATE_PROFILE"] == str(changed)


@pytest.mark.parametrize("record", [None, first("habits")])
def test_replay_refuses_settings_that_are_not_of_the_state_and_names_the_difference(
    record: Releases | None, changed: Path, answered: list[Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by = dict(profile().app.declarations)
    monkeypatch.setattr(replaying, "deployment", lambda _service: _with_state(monkeypatch, made_by, record))
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


def test_the_watched_status_follows_a_promotion(changed: Path, releases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"NAME": NEXT, "RELEASE_OF": "habits", "PROFILE": str(changed)}
    file.write(releases, {"habits": {NEXT: file.ByHand("127.0.0.1:1", "services.profile", own)}})
    before = staged(first("habits"), NEXT)
    records = iter([before, BOTH, BOTH, before])
    looked: list[Deployment] = []
    now = SimpleNamespace(record=before)

    def pause(_seconds: float) -> None:
        now.record = next(records, None)
        if now.record is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(Deployment, "pointer", SimpleNamespace(read=lambda: now.record))
    monkeypatch.setattr(state, "observe", looked.append)
    monkeypatch.setattr(state, "_report", lambda of, _seen: of)
    monkeypatch.setattr(state, "_overview", lambda reports: " ".join(of.app.name for of in reports))
    monkeypatch.setattr(state, "time", SimpleNamespace(sleep=pause))
    result = CliRunner().invoke(app, ["status", "profile", "--watch"])
    assert result.exit_code == 0, result.output
    assert result.stdout.split() == ["habits", "habits", NEXT, NEXT, "habits"]
    assert looked[2] is looked[3], "a release that stays live is not connected again"
