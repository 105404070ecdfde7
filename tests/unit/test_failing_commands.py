"""Commands without the servers, files and settings that they need: one line each, with what to do next."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from devkit.servers.child_process import LOCALHOST
from streamstate.settings import PREFIX
from tests.waiting import PATIENCE_S

NOWHERE = {"KAFKA": "127.0.0.1:1", "REDIS": "redis://127.0.0.1:1/0", "GATEWAY": "http://127.0.0.1:1"}
COMMAND, CONSOLE = ("streamstate.cli.main",), ("devkit.console",)


def start(*arguments: str, **settings: str) -> subprocess.Popen[str]:
    given = {f"{PREFIX}{name}": text for name, text in (NOWHERE | settings).items()}
    environment = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)} | given
    # A shell ignores SIGINT for what it runs in the background, and so would the command.
    argv = ["env", "--default-signal=INT", sys.executable, "-m", *arguments]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def failed(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """The exit status of a command, and its only line."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert out == ""
    [line] = err.splitlines()
    return process.returncode, line


@pytest.fixture(scope="module")
def without_kafka() -> Iterator[dict[str, "subprocess.Popen[str]"]]:
    """Commands that all try for ten seconds, at the same time."""
    console = {typed: start(*CONSOLE, *typed.split()) for typed in ("read lines", "send lines a:b", "create lines")}
    processes = {**console, "feed": start(*COMMAND, "feed", "--events", "1")}
    yield processes
    for process in processes.values():
        with process:
            process.kill()


@pytest.mark.parametrize("typed", ["read lines", "send lines a:b", "create lines", "feed"])
def test_a_kafka_that_is_away_is_named_with_its_setting(
    without_kafka: dict[str, "subprocess.Popen[str]"], typed: str
) -> None:
    status, line = failed(without_kafka[typed])
    assert (status, "Kafka does not answer at 127.0.0.1:1 (" in line, "STREAMSTATE_KAFKA" in line) == (4, True, True)


def test_a_redis_that_is_away_is_named_with_its_setting() -> None:
    status, line = failed(start(*COMMAND, "status"))
    assert (status, "Redis does not answer at redis://127.0.0.1:1/0 (" in line) == (4, True)


@pytest.mark.parametrize("typed", ["get 1", "watch 1", "lag"])
def test_a_misspelt_setting_is_told_with_the_nearest(typed: str) -> None:
    status, line = failed(start(*COMMAND, *typed.split(), GATEWY="http://127.0.0.1:2", GRACE_MS="1"))
    assert (status, "STREAMSTATE_GATEWY (unknown; did you mean STREAMSTATE_GATEWAY?)" in line) == (3, True)
    assert "GRACE_MS" not in line


def test_a_reader_that_closes_its_pipe_ends_the_command_silently() -> None:
    with start(*COMMAND, "config") as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.parametrize("command", [(*COMMAND, "feed"), (*CONSOLE, "read", "lines")], ids=lambda of: of[0])
def test_an_interrupt_is_no_traceback(command: tuple[str, ...]) -> None:
    with socket.create_server((LOCALHOST, 0)) as silent:
        process = start(*command, KAFKA=f"{LOCALHOST}:{silent.getsockname()[1]}")
        silent.accept()[0].close()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    assert process.returncode == 130


WORKER = """
import socket
from streamstate.spark.daemon import daemon
own, of_jvm = socket.socketpair()
of_jvm.close()
daemon.worker(own, True)
"""


def test_a_worker_whose_jvm_has_ended_prints_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
