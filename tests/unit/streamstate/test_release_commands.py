"""The commands about releases: their texts, and repeats after a kill."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from streamstate.cli.main import app
from streamstate.cli.output import agree, failing
from streamstate.cli.releases import drop
from streamstate.cli.releases.beside import Side, require_unbroken
from streamstate.cli.releases.progress import _done
from streamstate.cli.releases.promote import Promotion, _text
from streamstate.cli.releases.stage import Staged, _require_valid
from streamstate.cli.releases.stage import _text as staged_text
from streamstate.cli.services import deployment
from streamstate.errors import Declined
from streamstate.kafka.admin import Member
from streamstate.releases.record import Place, Releases, first, staged
from streamstate.state.store import Snapshot

PLACE: Place = "plays", 0
BOTH = staged(first("metrics"), "metrics-2")


def test_the_answer_names_the_command_that_undoes_it() -> None:
    def text(before: str) -> str:
        promotion = Promotion("metrics", before, "metrics-2", [], dry_run=False, seconds=0.1, outputs_seconds=0.4)
        return _text(promotion, "streamstate back metrics")

    assert text("metrics") == (
        "metrics-2 answers in place of metrics after 0.10 s, and publishes after 0.40 s; `streamstate back metrics` "
        "undoes it"
    )
    assert text("metrics-2") == "metrics-2 is live already, and publishes"


def side(members: dict[str, Any], owner: str | None) -> Side:
    """A release with a state of one partition, and what `look` reads of it."""
    snapshot = Snapshot(owner, 0, {}, {}, {}, {}, {}, ())
    return Side(deployment("metrics"), {0: snapshot}, members, {PLACE: 5}, [])


def test_a_release_is_starting_until_a_stream_has_run() -> None:
    new = side({}, None)
    assert (new.word, new.started) == ("starting", False)
    assert not _done(new, 1)
    with pytest.raises(Declined, match="no stream has joined the consumer group metrics for 120 s; start it"):
        _done(new, 121)
    assert side({}, "127.0.0.1:8101").word == "failing"
    assert side({"stream-0": Member(frozenset())}, None).word == "building"


def test_a_refused_contract_is_a_line_each_and_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    places = [f"GET /v1/plays 200 .member{number} string: is gone" for number in range(91)]
    with pytest.raises(typer.Exit) as ended, failing():
        require_unbroken("metrics-2", places)
    assert ended.value.exit_code == 1
    said, *lines = capsys.readouterr().err.splitlines()
    assert said == "streamstate: metrics-2 breaks clients in 91 places; accept the breaks by --breaking"
    assert lines == [*(f"  {place}" for place in places[:10]), "  … and 81 more"]


def test_a_command_in_a_message_names_its_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(known: Releases) -> None:
        monkeypatch.setattr(drop, "recorded", lambda _service: (deployment("metrics"), known))

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 1
        return result.stderr

    record(BOTH)
    live = "metrics is live: promote another release first, by `streamstate promote metrics metrics-2`"
    assert live in said("drop", "metrics", "metrics")
    assert "there is no release words; there are metrics, metrics-2: `streamstate stage metrics`" in said(
        "drop", "metrics", "words"
    )
    record(first("metrics"))
    assert "first, after `streamstate stage metrics`" in said("drop", "metrics", "metrics")


def test_without_a_terminal_a_question_names_the_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(typer.Exit) as ended, failing():
        agree(["to be deleted: metrics"], "Delete it?", yes=False)
    assert ended.value.exit_code == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "streamstate: nothing is changed: there is no terminal to answer the question; say --yes"
    agree([], "Delete it?", yes=True)


def test_a_staged_release_is_beside_the_live_one_and_is_dropped_by_name() -> None:
    answer = Staged("metrics", "metrics-3", {}, 0, [], started=True, helm="", dry_run=False)
    text = staged_text(answer, "metrics-2", "metrics")
    assert text.startswith("metrics-3 is staged beside metrics-2;")
    assert "`streamstate drop metrics metrics-3` undoes it" in text


def test_a_release_with_another_key_from_the_value_is_declined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would read a topic that only it writes, and not before its promotion."""
    text = "{name: sales, topic: orders, key: value.id, path: /v1/sales/<key>, fields: {id: int, to: int}"
    (live := tmp_path / "live.yaml").write_text(f"{text}, measures: {{n: {{count: all}}}}}}")
    (changed := tmp_path / "changed.yaml").write_text(live.read_text().replace("value.id", "value.to"))
    monkeypatch.setenv("STREAMSTATE_PROFILE", str(live))
    with pytest.raises(Declined, match="only a publishing release writes orders-by-to-int: install the change as a"):
        _require_valid(deployment("profile"), {"PROFILE": str(changed), "RELEASE_OF": "sales", "NAME": "sales-2"})
