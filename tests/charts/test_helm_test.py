"""`helm test`: the program of its pod, run here against answers of a server."""

import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from tests.charts.rendering import of_kind, render
from tests.serving import Served, new_address


@pytest.mark.parametrize(
    ("chart", "status", "body", "passes"),
    [
        ("gateway", 200, '{"status":"ready"}', True),
        ("gateway", 503, '{"status":503,"title":"not ready"}', False),
        ("gateway", 200, '{"status":"not-ready"}', False),
        ("gateway", 404, '{"status":"ready"}', False),
        ("metrics", 200, '{"service":"metrics"}', True),
        ("metrics", 401, '{"service":"metrics"}', False),
        ("metrics", 200, "{}", False),
    ],
)
def test_it_passes_when_the_answer_is_the_expected_one_only(chart: str, status: int, body: str, passes: bool) -> None:
    [pod] = of_kind(render(chart), "Pod")
    [program, _, contains] = pod["spec"]["containers"][0]["args"]

    def answer(_environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response(f"{status} -", [("Content-Length", str(len(body)))])
        return [body.encode()]

    server = Served(new_address(), answer)
    asked = [sys.executable, "-c", program, f"http://{server.address}/", contains]
    run = subprocess.run(asked, check=False, capture_output=True, text=True)
    server.stop()
    assert (run.returncode == 0) == passes, run.stderr
    assert "Traceback" not in run.stderr
    assert passes or body in run.stderr
