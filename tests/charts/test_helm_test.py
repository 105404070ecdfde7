"""`helm test`: the program of its pod, run here against answers of a server."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.charts.rendering import of_kind, render


@contextmanager
def answering(status: int, body: str) -> Iterator[str]:
    """The URL of a server that gives this answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
    with answering(status, body) as url:
        run = subprocess.run(
            [sys.executable, "-c", program, url, contains], check=False, capture_output=True, text=True
        )
    assert (run.returncode == 0) == passes, run.stderr
    assert "Traceback" not in run.stderr
    assert passes or body in run.stderr
