"""The worker class behind gunicorn's command, with a plain application."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from devkit.child_process import LOCALHOST, Child, free_port
from tests.waiting import until

MODULE = "tests.unit.strictasgi.plain"
BOOT_ERROR = 3


def gunicorn(address: str, application: str, home: Path) -> Child:
    command = [sys.executable, "-m", "gunicorn", "--worker-class", "strictasgi.worker.Worker", "--bind", address]
    child = Child("gunicorn", [*command, f"{MODULE}:{application}"], home / "gunicorn.log")
    child.start()
    return child


def ask(address: str, path: str = "/") -> socket.socket:
    """A connection that has asked for `path`."""
    host, _, port = address.partition(":")
    client = socket.create_connection((host, int(port)), timeout=5)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
    return client


def answered(address: str) -> bool:
    with suppress(OSError), ask(address) as client:
        return client.recv(65_536).startswith(b"HTTP/1.1 200")
    return False


@pytest.fixture
def address() -> str:
    return f"{LOCALHOST}:{free_port()}"


@pytest.fixture
def child(address: str, tmp_path: Path) -> Iterator[Child]:
    child = gunicorn(address, "application", tmp_path)
    until(lambda: answered(address), 30)
    yield child
    child.stop()


def test_sigterm_answers_what_has_begun(child: Child, address: str) -> None:
    with ask(address, "/slow") as client:
        time.sleep(0.1)
        os.kill(child.pid, signal.SIGTERM)
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
    until(lambda: not child.alive)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_sigint_and_sigquit_end_at_once(child: Child, address: str, number: signal.Signals) -> None:
    with ask(address, "/never") as client:
        time.sleep(0.1)
        os.kill(child.pid, number)
        until(lambda: not child.alive, 3)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


def test_a_worker_ends_with_its_master(child: Child) -> None:
    [worker] = psutil.Process(child.pid).children()
    os.kill(child.pid, signal.SIGKILL)
    until(lambda: not worker.is_running())


def test_a_worker_that_hangs_is_replaced(child: Child, address: str) -> None:
    [worker] = psutil.Process(child.pid).children()
    worker.send_signal(signal.SIGABRT)
    until(lambda: not worker.is_running())
    until(lambda: answered(address))


def test_an_application_that_cannot_start_ends_gunicorn(address: str, tmp_path: Path) -> None:
    child = gunicorn(address, "unstarted", tmp_path)
    until(lambda: not child.alive, 30)
    assert child.stop() == BOOT_ERROR
    assert "no database" in child.log.read_text()
