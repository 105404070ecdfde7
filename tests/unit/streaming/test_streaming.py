"""Streams behind a real gunicorn with our settings."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from http.client import HTTPResponse
from pathlib import Path

import pytest

from devkit.servers.child_process import Child
from tests.serving import new_address, running
from tests.unit.streaming.api import EVENT_BYTES, HEARTBEAT_S
from tests.waiting import REQUEST_S, now_s, until

DEADLINE_MS = 100
RECEIVED = 16 * 1024
"""Bytes that a client's kernel takes before the client does."""


def served(home: Path) -> AbstractContextManager[Child]:
    """The process, called by its address."""
    address = new_address()
    settings = {"DEADLINE_MS": str(DEADLINE_MS)}
    return running("tests.unit.streaming", address, home, settings, f"http://{address}/livez")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("streaming")) as child:
        yield child.name
    assert child.log.read_text() == ""


class Client:
    """A client of a stream, which reads on request."""

    def __init__(self, address: str, path: str, last_id: str = "") -> None:
        host, _, port = address.partition(":")
        self.socket = socket.socket()
        # Before it connects: the window is announced by then.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
        self.socket.settimeout(REQUEST_S)
        self.socket.connect((host, int(port)))
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\nLast-Event-ID: {last_id}\r\n\r\n".encode())
        self.response = HTTPResponse(self.socket)
        self.response.begin()

    def line(self, prefix: bytes) -> bytes:
        """The rest of the next line that begins so."""
        while line := self.response.readline():
            if line.startswith(prefix):
                return line.removeprefix(prefix).strip()
        msg = "the stream has ended"
        raise EOFError(msg)

    def number(self) -> int:
        """What the next event tells."""
        return int(self.line(b"data: "))

    def close(self) -> None:
        self.response.close()
        self.socket.close()


@pytest.fixture
def connect(address: str) -> Iterator[Callable[..., Client]]:
    """Clients of the process, which leave when the test ends; each waits for a place."""
    clients: list[Client] = []

    def placed(path: str, last_id: str) -> bool:
        clients.append(Client(address, path, last_id))
        return clients[-1].response.status == 200

    def connect(path: str, last_id: str = "") -> Client:
        until(lambda: placed(path, last_id))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def test_a_stream_goes_on_beyond_the_deadline_of_requests(connect: Callable[..., Client]) -> None:
    client, started = connect("/v1/counted"), now_s()
    numbers = [client.number()]
    while len(numbers) < 10 or now_s() < started + 5 * DEADLINE_MS / 1000:
        numbers.append(client.number())
    assert sorted(set(numbers)) == numbers


def test_who_waits_hears_that_the_server_lives(connect: Callable[..., Client]) -> None:
    started = now_s()
    client = connect("/v1/still")
    assert client.number() == 0
    assert [client.line(b": ") for _ in range(3)] == [b"heartbeat"] * 3
    assert now_s() - started >= 3 * HEARTBEAT_S


def test_a_client_that_does_not_read_gets_the_latest_next_and_not_a_queue(connect: Callable[..., Client]) -> None:
    fast, slow = connect("/v1/counted"), connect("/v1/counted")
    before = now = slow.number()
    while now < before + 200:
        now = fast.number()
    # First the buffered events of kernels and connection, then the new events.
    late = [number for number in (slow.number() for _ in range(60)) if number < now]
    assert len(late) * EVENT_BYTES < 500_000


def test_a_process_that_ends_ends_its_streams(tmp_path: Path) -> None:
    with served(tmp_path) as child, closing(Client(child.name, "/v1/still")) as client:
        assert client.number() == 0
        os.kill(child.pid, signal.SIGTERM)
        # A whole answer: a chunk of length zero ends it.
        with pytest.raises(EOFError):
            client.line(b"never")
        until(lambda: not child.alive)
