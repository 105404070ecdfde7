"""The API behind a real gunicorn with our settings: whatever comes is answered by a problem, and nobody else waits."""

import json
import os
import re
import select
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from devkit.cluster.local_cluster import answers
from tests.serving import sample, scraped
from tests.unit.web.api import SPOILT
from tests.unit.web.hostile import MALFORMED, UNREAD
from tests.unit.web.process import KNOWN, answer, ask, connect, request, serving, whole
from tests.waiting import PATIENCE_S, until, until_equal

ROOM = 32
"""The most requests in flight of the server under test."""

WAITING = "X-Min-Position: numbers:3=99"
"""A demand that is never met: such a request keeps a thread busy until its deadline."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the served API."""
    with serving(tmp_path_factory.mktemp("server"), REQUESTS_IN_FLIGHT=str(ROOM), DEADLINE_MS="4000") as child:
        yield child.name
    # Refused requests are not logged: a log would contain the requested user.
    assert all("slow or failed" in line for line in child.log.read_text().splitlines())


def refused(address: str, sent: bytes) -> int:
    """The status of the 4xx problem after these bytes."""
    response, body = answer(address, sent)
    assert 400 <= response.status < 500
    assert response.headers["Content-Type"] == "application/problem+json"
    assert body["status"] == response.status
    assert body["type"].startswith("urn:streamstate:problem:")
    assert body["detail"]
    return response.status


@pytest.fixture(scope="module")
def refusals(server: str) -> Iterator[list[Future[int]]]:
    """The statuses of the answers to `MALFORMED`: all are asked at once, for the server waits for the rest of some."""
    with ThreadPoolExecutor(len(MALFORMED)) as pool:
        yield [pool.submit(refused, server, sent) for sent, _ in MALFORMED]


@pytest.mark.parametrize("number", range(len(MALFORMED)), ids=lambda number: repr(MALFORMED[number][0][:60]))
def test_a_request_that_is_none_is_refused(refusals: list[Future[int]], number: int) -> None:
    assert refusals[number].result() in MALFORMED[number][1]


@pytest.mark.parametrize(
    "line",
    [
        "X-Forwarded-For: 10.0.0.1", "X-Forwarded-Host: there", "X-Forwarded-Proto: https", "X-Forwarded-Prefix: /v1",
        "X-Forwarded-Port: 1", "Forwarded: for=10.0.0.1;host=there", "X-Real-Ip: 10.0.0.1", "traceparent: 00-0-0-0",
        "X-Original-Url: /metrics", "X-Http-Method-Override: DELETE", "X-Direct: 1", "X_Direct: 1", "Range: bytes=0-1",
        "Accept: text/html", "If-None-Match: *", "Cookie: a=b", "Authorization: Basic !", "Upgrade: h2c",
    ],
)  # fmt: skip
def test_a_header_that_others_may_forge_changes_nothing(server: str, line: str) -> None:
    response, body = answer(server, request(KNOWN, line))
    assert (response.status, body) == (200, {"key": "7", "count": 1})
    assert response.headers["Served-By"] == server
    assert "Location" not in response.headers


def test_a_body_is_not_read_and_never_taken_for_a_request(server: str) -> None:
    smuggled = request("/v1/numbers/8")
    head = request(KNOWN, f"Content-Length: {len(smuggled)}")
    with connect(server) as client:
        response, body = ask(client, head + smuggled)
        assert (response.status, body) == (200, {"key": "7", "count": 1})
        assert ask(client, request(KNOWN))[1] == {"key": "7", "count": 1}


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_request_may_come_in_pieces_and_several_at_once(server: str, size: int) -> None:
    sent = request(KNOWN) + request("/v1/numbers/8") + request(KNOWN, "Connection: close")
    with connect(server) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), size):
            client.sendall(sent[start : start + size])
        received = whole(client)
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"404", b"200"]


@pytest.mark.parametrize("asked", [1, 3])
def test_a_client_that_sends_no_more_gets_its_answers(server: str, asked: int) -> None:
    with connect(server) as client:
        client.sendall(request(KNOWN, WAITING, "X-Deadline-Ms: 300") * asked)
        client.shutdown(socket.SHUT_WR)
        received = whole(client)
    assert len(re.findall(rb"HTTP/1.1 \d+", received)) == asked


def test_a_client_that_sends_no_more_within_a_request_is_left(server: str) -> None:
    with connect(server) as client:
        client.sendall(request(KNOWN) + UNREAD)
        client.shutdown(socket.SHUT_WR)
        assert whole(client).startswith(b"HTTP/1.1 200")


@contextmanager
def busy(address: str) -> Iterator[list[socket.socket]]:
    """As many requests as there is room for, none of which can be answered yet."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(address)) for _ in range(ROOM)]
        for client in clients:
            client.sendall(request(KNOWN, WAITING, "X-Deadline-Ms: 1000"))
        until_equal(lambda: answer(address, request(KNOWN))[0].status, 503)
        assert select.select(clients, [], [], 0)[0] == []
        yield clients
    until_equal(lambda: answer(address, request(KNOWN))[0].status, 200)


def test_more_than_there_is_room_for_is_refused_at_once(server: str) -> None:
    with connect(server) as client, busy(server) as waiting:
        for _ in range(3):
            response, body = ask(client, request(KNOWN))
            assert (response.status, body["type"]) == (503, "urn:streamstate:problem:overloaded")
            assert int(response.headers["Retry-After"]) >= 1
            assert response.headers["Content-Type"] == "application/problem+json"
        assert select.select(waiting, [], [], 0)[0] == []
        for refused in waiting:
            # The position is behind the end of the topic.
            assert refused.recv(65_536).startswith(b"HTTP/1.1 400 ")
        assert ask(client, request(KNOWN))[0].status == 200


def test_status_is_told_however_busy_it_is_and_refusals_are_counted(server: str) -> None:
    refused(server, request(KNOWN, "X-A : 1"))
    with busy(server) as waiting:
        assert answers(f"http://{server}/livez")
        assert answers(f"http://{server}/readyz")
        text = scraped(server)
        assert select.select(waiting, [], [], 0)[0] == []
    assert sample(text, "streamstate_refused_requests_total", problem="overloaded")
    assert sample(text, "streamstate_refused_requests_total", problem="malformed-request")


TRACE, UNKNOWN = "4bf92f3577b34da6a3ce929d0e0e4736", 404_404


class Logged(NamedTuple):
    """What was answered for `SPOILT`, and the log of a server that logs each request."""

    response: HTTPResponse
    problem: Any
    text: str

    def lines(self, status: int) -> list[dict[str, Any]]:
        """The lines of requests with this status, and of their failures."""
        lines: list[dict[str, Any]] = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in lines if line.get("status", 500) == status]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    with serving(tmp_path_factory.mktemp("logged"), ACCESS_LOG="true") as child:
        response, problem = answer(child.name, request(f"/v1/numbers/{SPOILT}"))
        path, traced = f"/v1/numbers/{UNKNOWN}", f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01"
        answer(child.name, request(path, "X-Request-Id: mine", traced))
        answer(child.name, request(path, "traceparent: 00-zz"))
    return Logged(response, problem, child.log.read_text())


def test_a_bug_is_logged_without_saying_who_was_asked_for(logged: Logged) -> None:
    assert (logged.response.status, logged.problem["type"]) == (500, "urn:streamstate:problem:internal")
    bug, failed = lines = logged.lines(500)
    assert bug["exception"].endswith("KeyError: 'count'")
    assert (bug["event"], failed["event"]) == ("a request failed", "slow or failed")
    assert {line["request_id"] for line in lines} == {logged.response.headers["X-Request-Id"]}
    assert str(SPOILT) not in logged.text


def test_every_request_is_logged_where_that_is_set_without_saying_who_was_asked_for(logged: Logged) -> None:
    lines = logged.lines(404)
    assert [line["event"] for line in lines] == ["answered", "answered"]
    assert {line["route"] for line in lines} == {"/v1/numbers/<key>"}
    assert [(line["request_id"] == "mine", line.get("trace_id")) for line in lines] == [(True, TRACE), (False, None)]
    assert all(line["ms"] >= 0 and line["timestamp"].endswith("Z") for line in lines)
    assert str(UNKNOWN) not in logged.text


def test_no_request_id_is_given_again_by_the_next_worker(tmp_path: Path) -> None:
    with serving(tmp_path) as child:
        before = request_ids(child.name)
        (worker,) = psutil.Process(child.pid).children()
        worker.kill()
        worker.wait()
        child.wait_until(lambda: answers(f"http://{child.name}{KNOWN}"), timeout=PATIENCE_S)
        assert before.isdisjoint(request_ids(child.name))


def request_ids(address: str) -> set[str]:
    """Those of ten requests."""
    ids = {answer(address, request(KNOWN))[0].headers["X-Request-Id"] for _ in range(10)}
    assert len(ids) == 10
    return ids


def refuses(address: str) -> bool:
    """Whether connections to this address are refused."""
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return True
    return False


def test_who_ends_takes_no_new_connection_and_answers_on_the_old_ones(tmp_path: Path) -> None:
    with serving(tmp_path) as child, connect(child.name) as kept:
        assert ask(kept, request(KNOWN))[0].status == 200
        os.kill(child.pid, signal.SIGTERM)
        until(lambda: refuses(child.name))
        response, _ = ask(kept, request(KNOWN))
        assert (response.status, response.headers["Connection"]) == (200, "close")
        assert child.stop() == 0
