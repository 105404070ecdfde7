"""`streamstate diff`: the answers of two releases."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from streamstate.cli.main import app
from streamstate.cli.releases import diff as diffing
from streamstate.cli.services import deployment
from streamstate.releases.record import first, staged
from streamstate_client import Refused, Reply

LIVE: dict[str, Any] = {"key": 1, "plays": {"7d": 3, "ever": 9}, "devices": {"phone": 2}, "artists": [1, 2], "long": 7}
STAGED: dict[str, Any] = {**LIVE, "plays": {"7d": 4, "ever": 9}, "devices": {"phone": 1, "tv": 1}}


def known(value: dict[str, Any] | None, position: int | str = "") -> Reply:
    if value is None:
        raise Refused(404, "unknown")
    return Reply(value, str(position))


class Release:
    """A release that has folded some of a key's plays, and folds more before each answer."""

    def __init__(self, data: st.DataObject, plays: Sequence[int], counted: int) -> None:
        self._data, self._plays, self._counted = data, plays, counted
        self._position = data.draw(st.integers(0, len(plays)))

    @property
    def complete(self) -> bool:
        return self._position == len(self._plays)

    def answer(self, after: str) -> Reply:
        """The answer at the demanded position or later."""
        least = max(self._position, int(after or 0))
        self._position = self._data.draw(st.integers(least, len(self._plays)))
        plays = self._plays[: self._position]
        return known({"plays": sum(plays) * self._counted, "busy": sum(plays)} if plays else None, self._position)


@given(data=st.data(), plays=st.lists(st.integers(0, 1)), counted=st.integers(1, 2))
def test_releases_differ_by_no_more_than_their_folds(data: st.DataObject, plays: list[int], counted: int) -> None:
    releases = {"live": Release(data, plays, 1), "staged": Release(data, plays, counted)}
    still = all(release.complete for release in releases.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffing, "ask", lambda _path, name, after="": releases[name].answer(after))
        difference = diffing._difference("/", "live", "staged")
    assert difference is None or (counted == 2 and difference.members.keys() == {"plays"})
    assert difference or not (still and counted == 2 and any(plays))


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
    monkeypatch.setattr(
        diffing, "ask", lambda path, name, _after: known(answers[path.split("/")[3]][name == "habits-2"])
    )
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


LONG: dict[str, Any] = {"name": "a" * 100, "tops": {"7d": [{"id": n, "plays": 90 - n} for n in range(20)], "ever": []}}


@pytest.mark.parametrize(
    ("other", "lines"),
    [
        (LONG | {"name": "a" * 99 + "b"}, [f'name: …{"a" * 21}" → …{"a" * 20}b"']),
        (LONG | {"name": None}, [f'name: "{"a" * 59}… → null']),
        (
            LONG | {"tops": {"7d": [*LONG["tops"]["7d"][:-1], {"id": 7, "plays": 1}], "ever": [3]}},
            ['tops.7d: [{"id":19,"plays":71}] → [{"id":7,"plays":1}]', "tops.ever: [] → [3]"],
        ),
        (LONG | {"tops": {"7d": LONG["tops"]["7d"][::-1], "ever": []}}, ["in another order"]),
        (LONG | {"tops": {f"{n}d": n for n in range(30)}}, ["tops.0d: null → 0", "and 22 more"]),
    ],
    ids=["a long text", "no text", "a list", "an order", "many members"],
)
def test_the_members_that_differ_are_shown(other: dict[str, Any], lines: list[str]) -> None:
    shown = list(diffing.shown("/v1/1", diffing._differing(LONG, other)))
    assert all(any(line in each for each in shown) for line in lines), shown
    assert len(shown) <= len(lines) or len(shown) == diffing.SHOWN
    assert all(len(each) <= 180 for each in shown)
