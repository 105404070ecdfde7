"""The start of a process: accepted variables, and the exit after an unknown variable."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import registry
from devkit.servers.child_process import free_port
from streamstate.bootstrap import commands
from tests.waiting import PATIENCE_S

PROCESSES = {
    "stream": (("streamstate.spark", "services.metrics"), 3),
    "streams": (("devkit.cluster.streams", "metrics-0=127.0.0.1:8101"), 3),
    "command": (("streamstate.cli.main", "verify", "metrics"), 3),
    "smoke": (("services.smoke", "http://127.0.0.1:1"), 3),
    "demo": (("devkit.demo",), 1),
    "api": (("streamstate.web", "services.metrics"), 3),
    "gateway": (("streamstate.web", "services.gateway"), 3),
}
"""The command of each process, and its exit status when it is misconfigured."""


def run(module: tuple[str, ...], **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "STREAMSTATE_LISTEN": f"127.0.0.1:{free_port()}", "STREAMSTATE_WORKERS": "1", **environment}
    argv = [sys.executable, "-m", *module]
    return subprocess.run(argv, check=False, env=given, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("process", PROCESSES)
def test_an_unknown_variable_ends_the_process_and_the_nearest_name_is_given(process: str) -> None:
    module, status = PROCESSES[process]
    ended = run(module, STREAMSTATE_DEADLNE_MS="5")
    assert "STREAMSTATE_DEADLNE_MS (unknown; did you mean STREAMSTATE_DEADLINE_MS?)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode == status


def test_a_printed_command_has_the_settings_that_choose_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    app = registry.app("profile")
    given = {"REDIS": "redis://company:6379/0", "PROFILE": "my rooms.yaml", "KEPT": "[]", "SLOTS": "2"}
    for name, text in given.items():
        monkeypatch.setenv(f"STREAMSTATE_{name}", text)
    text, redis = "run `streamstate reset SERVICE`", "STREAMSTATE_REDIS=redis://company:6379/0"
    assert commands(app).complete(text) == f"run `{redis} streamstate reset habits`"
    variables = f"{redis} STREAMSTATE_PROFILE='my rooms.yaml'"
    assert commands(app, stored=False).complete(text) == f"run `{variables} streamstate reset profile`"


@pytest.mark.parametrize(
    ("process", "service", "reason"),
    [
        ("streamstate.spark", "services.metrix", "there is no package services.metrix; name one such as "),
        ("streamstate.web", "services.verify", "there is no package services.verify; name one such as "),
        ("streamstate.spark", "tests.charts", "tests.charts.model has neither APP nor app(settings); declare one"),
    ],
)
def test_a_service_that_is_none_ends_the_process_with_what_to_do(process: str, service: str, reason: str) -> None:
    ended = run((process, service))
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 3


def test_a_service_whose_module_lacks_one_that_it_imports_says_which(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.py").write_text("import there_is_no_such_module\n")
    ended = run(("streamstate.spark", "broken"), PYTHONPATH=os.pathsep.join([*filter(None, sys.path), str(tmp_path)]))
    assert "No module named 'there_is_no_such_module'" in ended.stderr
