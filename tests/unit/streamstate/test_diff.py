"""`streamstate diff`: the answers of two releases."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from streamstate.cli.main import app
from streamstate.cli.releases import diff as diffing
from streamstate.cli.services import deployment
from streamstate.releases.record import first, staged

LIVE: dict[str, Any] = {"key": 1, "plays": {"7d": 3, "ever": 9}, "devices": {"phone": 2}, "artists": [1, 2], "long": 7}
STAGED: dict[str, Any] = {**LIVE, "plays": {"7d": 4, "ever": 9}, "devices": {"phone": 1, "tv": 1}}


def test_a_diff_counts_the_keys_of_each_member_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, list[dict[str, Any] | None]] = {
        "1": [LIVE, STAGED],
        "2": [LIVE, {**STAGED, "plays": {"7d": 3, "ever": 8}}],
        "3": [LIVE, {**LIVE, "long": {"7d": 7, "ever": 7}}],
        "4": [LIVE, None],
        "5": [LIVE, LIVE],
    }
    of = deployment("profile")
    monkeypatch.setattr(diffing, "recorded", lambda _service: (of, staged(first("habits"), "habits-2")))
    monkeypatch.setattr(diffing, "breaking", lambda _name: [])
    monkeypatch.setattr(diffing, "look", lambda *_: None)
    monkeypatch.setattr(diffing, "refused_more", lambda *_: [])
    monkeypatch.setattr(diffing, "_views", lambda app: app.views[:1])
    monkeypatch.setattr(diffing, "_answer", lambda path, name: answers[path.split("/")[3]][name == "habits-2"])
    monkeypatch.setattr(diffing, "AGAIN_S", 0)
    keys = [word for key in answers for word in ("--key", key)]
    result = CliRunner().invoke(app, ["diff", "profile", *keys])
    assert (result.exit_code, result.stderr) == (1, "")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[0] == "1 of 5 answers of habits and habits-2 are equal"
    assert set(lines[1:6]) == {
        "devices: 2 of 5 differ",
        "plays.7d: 1 of 5 differ",
        "plays.ever: 1 of 5 differ",
        "long: 1 of 5 differ",
        "1 of 5 are unknown to one of the releases",
    }
    assert lines[1] == "devices: 2 of 5 differ"
    summary = json.loads(CliRunner().invoke(app, ["diff", "profile", *keys, "--json"]).stdout)["summary"]
    assert summary[0] == {"view": "habits", "member": "devices", "differing": 2, "answers": 5}
    assert len(summary) == 5
