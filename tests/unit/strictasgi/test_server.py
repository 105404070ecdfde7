"""A plain ASGI application behind the server, on an event loop of the test."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from devkit.servers.child_process import LOCALHOST, Child, free_port
from strictasgi.connection import EXTENSION
from strictasgi.lifespan import Application
from strictasgi.server import Server
from tests.serving import Loop
from tests.unit.strictasgi.plain import BEGUN
from tests.waiting import PATIENCE_S, REQUEST_S, until, until_equal

GET = b"GET /a%20b?x=1 HTTP/1.1\r\nHost: here\r\n"
CLOSE = GET + b"Connection: close\r\n\r\n"
OK = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}
BODY = {"type": "http.response.body", "body": b"ok"}


def start(loop: Loop, application: Application) -> tuple[Server, socket.socket]:
    """A server that has started, and a connection to it."""
    listening = socket.create_server((LOCALHOST, 0))
    address = listening.getsockname()

    async def begin() -> Server:
        server = Server(application)
        await server.start()
        server.listen(listening)
        return server

    return loop.run(begin()), socket.create_connection(address, timeout=REQUEST_S)


Serving = Callable[[Application], AbstractContextManager[socket.socket]]


@pytest.fixture
def serving(loop: Loop) -> Serving:
    """Connects to a server of an application, which is stopped at the end of the block."""

    @contextmanager
    def connect(application: Application) -> Iterator[socket.socket]:
        server, client = start(loop, application)
        with client:
            yield client
        loop.run(server.stop(5))

    return connect


def received(client: socket.socket) -> bytes:
    """The bytes of the server until the end of the connection."""
    return b"".join(iter(lambda: client.recv(65_536), b""))


def answering(*messages: Any) -> Application:
    """An application without a lifespan, with these messages as answers."""

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        for message in messages:
            await send(message)

    return application


def answer(serving: Serving, *messages: Any) -> bytes:
    with serving(answering(*messages)) as client:
        client.sendall(CLOSE)
        return received(client)


def test_a_scope_is_that_of_asgi(serving: Serving) -> None:
    scopes = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        if scope["type"] == "lifespan":
            scope["state"]["filled"] = True
            for step in ("startup", "shutdown"):
                assert await receive() == {"type": f"lifespan.{step}"}
                await send({"type": f"lifespan.{step}.complete"})
            scopes.append("ended")
            return
        await send(OK)
        await send(BODY)

    with serving(application) as client:
        own, theirs = client.getsockname(), client.getpeername()
        client.sendall(CLOSE)
        assert received(client).endswith(b"\r\n\r\nok")
    lifespan, http, ended = scopes
    assert (lifespan["asgi"]["version"], ended) == ("3.0", "ended")
    assert http.pop("extensions").keys() == {EXTENSION}
    assert http == {
        "type": "http",
        "asgi": lifespan["asgi"],
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a b",
        "raw_path": b"/a%20b",
        "query_string": b"x=1",
        "root_path": "",
        "headers": [(b"host", b"here"), (b"connection", b"close")],
        "client": own,
        "server": theirs,
        "state": {"filled": True},
    }


def test_what_messages_may_leave_out(serving: Serving) -> None:
    start = {"type": "http.response.start", "status": 299}
    sent = answer(serving, start, {"type": "http.response.body", "more_body": True}, {"type": "http.response.body"})
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 299 \r\n")
    assert body == b"0\r\n\r\n"


def test_the_coding_is_chosen_by_the_server(serving: Serving) -> None:
    fields = [(b"Transfer-Encoding", b"chunked"), (b"content-length", b"2")]
    head, _, body = answer(serving, {**OK, "headers": fields}, BODY).partition(b"\r\n\r\n")
    assert (b"ransfer" in head, body) == (False, b"ok")


@pytest.mark.parametrize("messages", [(), (OK,), ({**OK, "headers": [(b"x", b"a\r\nb: c")]}, BODY), (OK, {})])
def test_without_an_answer_the_client_is_told(serving: Serving, messages: tuple[Any, ...]) -> None:
    sent = answer(serving, *messages)
    assert sent.startswith(b"HTTP/1.1 500 ")
    assert b"\r\nContent-Type: text/plain" in sent


@pytest.mark.parametrize("last", [(), ({},)], ids=["nothing more", "an exception"])
def test_an_answer_that_stays_a_part_ends_the_connection(serving: Serving, last: tuple[Any, ...]) -> None:
    with serving(answering({**OK, "headers": []}, {**BODY, "more_body": True}, *last)) as client:
        client.sendall(GET + b"\r\n")
        assert received(client).endswith(b"\r\n\r\n2\r\nok\r\n")


def test_after_its_answer_an_application_is_told_that_the_client_has_left(serving: Serving) -> None:
    told: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        waiting = asyncio.create_task(receive())
        while (await waiting)["type"] == "http.request":
            waiting = asyncio.create_task(receive())
            await asyncio.sleep(0)
            await send(OK)
            await send(BODY)
        told.extend([(await waiting)["type"], (await receive())["type"]])

    with serving(application) as client:
        client.sendall(CLOSE)
        assert received(client).endswith(b"ok")
    assert told == ["http.disconnect"] * 2


def test_answers_of_no_known_end_end_with_the_server(loop: Loop) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        scope["extensions"][EXTENSION]["send_unqueued"]()
        await send({**OK, "headers": []})
        await send({**BODY, "more_body": True})
        while (await receive())["type"] == "http.request":
            pass
        await send({"type": "http.response.body"})

    server, client = start(loop, application)
    with client:
        client.sendall(GET + b"\r\n")
        assert client.recv(65_536).endswith(b"\r\n\r\n2\r\nok\r\n")
        loop.run(server.stop(5))
        assert received(client) == b"0\r\n\r\n"


# The worker class behind gunicorn's command, with a plain application.

MODULE = "tests.unit.strictasgi.plain"
BOOT_ERROR = 3


def gunicorn(address: str, application: str, home: Path) -> Child:
    command = [sys.executable, "-m", "gunicorn", "--worker-class", "strictasgi.worker.Worker", "--bind", address]
    # What ends within the patience of a test has not waited for a request without end.
    command += ["--graceful-timeout", str(round(2 * PATIENCE_S)), f"{MODULE}:{application}"]
    child = Child("gunicorn", command, home / "gunicorn.log")
    child.start()
    return child


def ask(address: str, path: str = "/") -> socket.socket:
    """A connection that has asked for `path`."""
    host, _, port = address.partition(":")
    client = socket.create_connection((host, int(port)), timeout=REQUEST_S)
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
    until(lambda: answered(address))
    yield child
    child.stop()


def test_sigterm_answers_what_has_begun(child: Child, address: str) -> None:
    with ask(address, "/slow") as client:
        until_equal(lambda: child.tail(1), BEGUN)
        os.kill(child.pid, signal.SIGTERM)
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
    until(lambda: not child.alive)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_sigint_and_sigquit_end_at_once(child: Child, address: str, number: signal.Signals) -> None:
    with ask(address, "/never") as client:
        until_equal(lambda: child.tail(1), BEGUN)
        os.kill(child.pid, number)
        until(lambda: not child.alive)
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
    until(lambda: not child.alive)
    assert child.stop() == BOOT_ERROR
    assert "no database" in child.log.read_text()
