"""The commands of `streamstate` for a gateway, with a running gateway."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from streamstate.cli.main import app
from streamstate.cli.users.answers import rendered, text
from tests.commands import failed
from tests.serving import Served
from tests.unit.gateway.deployment import PARTITIONS, STRANGER, USER, Services

Run = Callable[..., Result]
NAME = "Prince"


@pytest.fixture
def run(gateway: Served) -> Run:
    def command(*arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(
            app, arguments, env={"STREAMSTATE_GATEWAY": f"http://{gateway.address}", **environment}
        )

    return command


def answer(result: Result, status: int = 0) -> Any:
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


class TestGet:
    def test_it_shows_the_answer_of_the_gateway_as_it_is(self, run: Run, deployment: Services) -> None:
        # Walks are random.
        shown = answer(run("get", str(USER), "--part", "metrics", "--part", "recent", "--json"))
        assert shown == deployment.gateway().get(f"/v1/users/{USER}?parts=metrics,recent").get_json()

    def test_people_get_names_and_tables(self, run: Run) -> None:
        shown = run("get", str(USER)).stdout
        assert "event count" in shown
        assert NAME in shown

    @pytest.mark.parametrize(
        ("user", "reason"), [(str(STRANGER), "nothing is known"), ("no number", "an id is a whole number")]
    )
    def test_what_has_no_answer_is_status_1_with_the_detail(self, run: Run, user: str, reason: str) -> None:
        assert reason in failed(run("get", user), 1)

    def test_a_gateway_that_is_away_is_status_4_with_its_setting(self, run: Run) -> None:
        line = failed(run("get", "1", STREAMSTATE_GATEWAY="http://127.0.0.1:1"), 4)
        assert "STREAMSTATE_GATEWAY" in line

    def test_a_key_is_sent_and_shown_nowhere(self, run: Run, gateway: Served) -> None:
        result = run("get", str(STRANGER), STREAMSTATE_GATEWAY_KEY="a-secret")
        assert gateway.headers[-1]["Authorization"] == "Bearer a-secret"
        assert "a-secret" not in result.output

    def test_an_address_that_is_none_is_status_3(self, run: Run) -> None:
        assert "STREAMSTATE_GATEWAY" in failed(run("get", "1", STREAMSTATE_GATEWAY="localhost"), 3)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens while a stream is asked for again, which ends with each event here; then Ctrl-C is pressed."""

    def happen(module: str, *events: Callable[[], object]) -> None:
        steps = iter(events)

        def pause(_seconds: float) -> None:
            step = next(steps, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        # Not `time` itself: threads of other tests are in it.
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(sleep=pause))

    return happen


CLIENT = "streamstate_client.client"


def piped(*arguments: str, gateway: str) -> list[str]:
    """The first two lines that the command writes to a pipe while it goes on."""
    command = [sys.executable, "-m", "streamstate.cli.main", *arguments]
    environment = os.environ | {"STREAMSTATE_GATEWAY": gateway}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            return [process.stdout.readline() for _ in range(2)]
        finally:
            process.kill()


class TestWatch:
    def test_it_shows_events_as_they_come(self, run: Run, deployment: Services, between: Callable[..., None]) -> None:
        between(CLIENT, lambda: deployment.play([(STRANGER, 1, 2, 3, 1_000)]))
        result = run("watch", str(STRANGER), "--part", "metrics")
        assert result.exit_code == 0, result.output
        assert NAME in result.stdout

    def test_it_outlives_the_gateway(self, run: Run, gateway: Served, between: Callable[..., None]) -> None:
        between(CLIENT, gateway.stop, lambda: None)
        result = run("watch", str(USER))
        assert result.exit_code == 0, result.output
        assert "trying again" in result.stdout

    def test_a_pipe_gets_each_answer_at_once(self, gateway: Served) -> None:
        lines = piped("watch", str(USER), "--part", "metrics", gateway=f"http://{gateway.address}")
        assert any("event count" in line for line in lines)

    def test_a_pipe_gets_the_error_without_a_gateway(self) -> None:
        assert any("trying again" in line for line in piped("watch", "1", gateway="http://127.0.0.1:1"))


class TestPartitions:
    def test_a_route_names_partition_and_owner(self, run: Run, deployment: Services) -> None:
        [view] = answer(run("route", "metrics", str(USER), "--json"))["views"]
        assert view["owner"] == deployment.owner(USER).address
        assert view["owner"] in run("route", "metrics", str(USER)).stdout

    def test_the_lag_of_each_partition(self, run: Run, deployment: Services) -> None:
        states = deployment.stores["metrics"].read(dict.fromkeys(range(PARTITIONS), ()))
        written, position = next(
            (p, state.positions["listening-events"]) for p, state in states.items() if state.positions
        )
        deployment.topics.written["listening-events", written] = position + 100
        for one in deployment.freshness:
            one.refresh()
        partitions = answer(run("lag", "metrics", "--json"))
        assert [(p["service"], p["partition"]) for p in partitions] == [("metrics", n) for n in range(PARTITIONS)]
        assert {p["partition"]: p["lag"] for p in partitions if p["lag"]} == {written: 100}

    def test_a_partition_that_is_not_ready_is_status_1(self, run: Run, deployment: Services) -> None:
        store = deployment.stores["metrics"]
        empty = next(p for p in range(PARTITIONS) if not store.read({p: []})[p].positions)
        store.claim(empty, "127.0.0.1:1", {"listening-events": 10})
        partitions = answer(run("lag", "metrics", "--json"), 1)
        assert [p["partition"] for p in partitions if not p["ready"]] == [empty]

    def test_top_goes_on_until_it_is_interrupted(self, run: Run, between: Callable[..., None]) -> None:
        between(CLIENT, lambda: None)
        result = run("top")
        assert result.exit_code == 0, result.output
        assert "reads/s" in result.stdout
        assert "metrics" in result.stdout

    def test_top_is_the_state_of_the_system_as_json(self, run: Run, deployment: Services) -> None:
        assert {of["name"] for of in answer(run("top", "--json"))["services"]} == set(deployment.at)


class TestForward:
    """A stand-in for kubectl prints its arguments, because not every run of the tests has a cluster."""

    @pytest.fixture
    def kubectl(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        program = tmp_path / "kubectl"
        program.write_text(
            '#!/bin/sh\necho "$@" >> "$0.calls"\necho Forwarding\necho lost connection to pod >&2\nexit 1\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return program

    def test_it_comes_back(self, kubectl: Path, between: Callable[..., None]) -> None:
        between("streamstate.cli.users.forward", lambda: None)
        result = CliRunner().invoke(app, ["forward", "metrics", "1", "--port", "9000", "-n", "music"])
        assert result.exit_code == 0, result.output
        calls = Path(f"{kubectl}.calls").read_text().splitlines()
        assert calls == ["port-forward --namespace music pod/metrics-1 9000:8080"] * 2
        assert "lost connection to pod" in result.stderr

    def test_what_never_worked_is_status_1_with_the_reason(self, kubectl: Path) -> None:
        kubectl.write_text('#!/bin/sh\necho "services metric not found" >&2\nexit 1\n')
        assert "services metric not found" in failed(CliRunner().invoke(app, ["forward", "metric"]), 1)

    def test_without_kubectl_it_is_status_3(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "kubectl" in failed(CliRunner().invoke(app, ["forward", "metrics"]), 3)


def test_open_hands_the_address_to_the_browser(gateway: Served, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    settings = {"STREAMSTATE_GATEWAY": f"http://{gateway.address}", "BROWSER": f"{browser} %s"}
    command = [sys.executable, "-m", "streamstate.cli.main", "open"]
    opened = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
    assert opened.stdout == f"http://{gateway.address}/\n" == (tmp_path / "opened").read_text()


def printed(value: dict[str, Any], width: int = 120) -> str:
    console = Console(width=width, force_terminal=False, soft_wrap=True)
    with console.capture() as capture:
        console.print(rendered(value))
    return capture.get()


class TestAnswers:
    def test_a_ranking_has_bars_in_proportion(self) -> None:
        shown = printed({"top": [{"id": 9, "plays": 12}, {"id": 5, "plays": 6}]})
        bars = [line.count("█") for line in shown.splitlines() if "█" in line]
        assert bars == [12, 6]

    def test_names_are_neither_markup_nor_commands_to_the_terminal(self) -> None:
        shown = printed({"name": "[bold]a[/b]", "top": [{"name": "[/]b"}, {"name": "\x1b[2Jc\nd"}]})
        assert "[bold]a[/b]" in shown
        assert "[/]b" in shown
        assert "\N{REPLACEMENT CHARACTER}[2Jc\N{REPLACEMENT CHARACTER}d" in shown

    def test_a_profile_of_windows_is_readable_in_80_columns(self) -> None:
        windows = {each: dict.fromkeys(("phone", "desktop", "tv"), 10**6) for each in ("1h", "7d", "ever")}
        tops = {each: [{"genre": "drum and bass " * 2, "count": 9 - n} for n in range(5)] for each in ("30d", "ever")}
        times = {"from": 1_795_680_000_000, "to": 1_795_680_060_000}
        shown = printed(
            {"key": 1, "habits": {"plays": windows, "genres": tops, "at": times, "many": [*range(90)]}}, 10_000
        )
        lines = [line.rstrip() for line in shown.splitlines()]
        assert max(map(len, lines)) <= 80
        assert "    1h    phone 1,000,000, desktop 1,000,000, tv 1,000,000" in lines
        assert "    from  2026-11-26 08:00:00 UTC" in lines
        assert "habits genres 30d" in lines
        assert "  genres" not in lines
        assert sum("drum and bass" in line for line in lines) == 10

    @pytest.mark.parametrize(
        ("name", "value", "expected"),
        [
            ("count", 1234567, "1,234,567"),
            ("userId", 1234567, "1234567"),
            ("lastSeen", 1_795_680_000_000, "2026-11-26 08:00:00 UTC"),
            ("artistId", 1_795_680_000_000, "1795680000000"),
            ("score", 0.123456, "0.123"),
            ("name", None, "-"),
            ("partial", False, "False"),
            ("why", [{"id": 1, "name": "Prince"}, {"id": 2, "plays": 3}], "Prince, id 2, plays 3"),
        ],
    )
    def test_values_are_readable(self, name: str, value: object, expected: str) -> None:
        assert text(name, value) == expected
