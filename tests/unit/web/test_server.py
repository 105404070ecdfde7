"""The API behind a real gunicorn with our settings: whatever comes is answered by a problem, and nobody else waits."""

import json
import os
import re
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psutil
import pytest
import urllib3

from devkit.child_process import LOCALHOST, Child, free_port
from devkit.local_cluster import LocalCluster, answers
from tests.serving import sample, scraped, until
from tests.unit.web.api import SPOILT

KNOWN = "/v1/numbers/7"
IDS = [
    "abc", "", "-1", "+1", "%201", "1_000", "%EF%BC%91", "00012", "1e3", "0x10", "9223372036854775808", "9" * 5_000,
    "%00", "1%0d%0aX:%20y", "..%2f", "..%2f..%2fprocessors", "%", "%zz", "7/", "7;a=b", "7%20",
]  # fmt: skip
PARAMETERS = ["least=-1", "least=10", "least=1000000000", "least=1;2", "least=nan", "least=", "least=1&least=2"]
METHODS = ["POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "BREW", "get", "G", "GET\t"]


ROOM = 32
"""The most requests in flight of the server under test."""

WAITING = "X-Min-Position: numbers:3=99"
"""A demand that is never met: such a request keeps a thread busy until its deadline."""


def started(address: str, home: Path, **further: str) -> Child:
    """The process that serves the API at this address, with `further` settings; one number is known to it."""
    settings = {"ADVERTISE": address, "REQUESTS_IN_FLIGHT": str(ROOM), **further}
    child = LocalCluster.api("tests.unit.web", "api", address, home, settings)
    child.start()
    child.wait_until(lambda: answers(f"http://{address}{KNOWN}"), timeout=30)
    return child


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the served API."""
    address = f"{LOCALHOST}:{free_port()}"
    child = started(address, tmp_path_factory.mktemp("server"))
    yield address
    child.stop()
    # Of requests that are refused nothing is logged: that would tell who was asked for.
    assert all("slow or failed" in line for line in child.log.read_text().splitlines())


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    """A request with these header lines."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: here", *headers, "", ""]).encode()


def post(body: bytes, *headers: str) -> bytes:
    """A request for many keys."""
    return request("/v1/many", *headers, method="POST") + body


def ask(client: socket.socket, sent: bytes) -> tuple[HTTPResponse, Any]:
    """What is answered to these bytes on this connection: the response, and the JSON in it."""
    client.sendall(sent)
    response = HTTPResponse(client)
    response.begin()
    return response, json.loads(response.read())


def answer(address: str, sent: bytes) -> tuple[HTTPResponse, Any]:
    """The same on a new connection."""
    with connect(address) as client:
        return ask(client, sent)


def refused(address: str, sent: bytes) -> int:
    """The status of the 4xx problem that answers these bytes."""
    response, body = answer(address, sent)
    assert 400 <= response.status < 500
    assert response.headers["Content-Type"] == "application/problem+json"
    assert body["status"] == response.status
    assert body["type"].startswith("urn:streamstate:problem:")
    assert body["detail"]
    return response.status


@pytest.mark.parametrize("text", IDS, ids=lambda text: text[:20])
def test_an_id_that_is_none(server: str, text: str) -> None:
    assert refused(server, request(f"/v1/numbers/{text}")) in (400, 404)


@pytest.mark.parametrize("text", PARAMETERS)
def test_a_parameter_that_is_none(server: str, text: str) -> None:
    assert refused(server, request(f"/v1/above/7?{text}")) == 400


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_there_is_not(server: str, method: str) -> None:
    assert refused(server, request(KNOWN, method=method)) in (400, 405)


HOSTILE = [
    (request("/v1/many?" + "&".join(["numbers=1"] * 500)), 400),
    (post(b'{"numbers": [7]}', "Content-Length: 15"), 400),
    (post(b'{"numbers": ["x"]}', "Content-Length: 18"), 400),
    (post(b'{"numbers\xc8": [7]}', "Content-Length: 17"), 400),
    (post(b'{"numbers": ["\xc8"]}', "Content-Length: 18"), 400),
    (post(b'10\r\n{"numbers": [7]}\r\n0\r\n', "Transfer-Encoding: chunked"), 408),
    (post(b"not hex\r\n", "Transfer-Encoding: chunked"), 400),
    (post(b'{"numbers": [7', "Content-Length: 16"), 408),
    (post(b"", "Content-Length: 1", "Expect: 100-continue"), 408),
    (post(b" " * 200_000, "Content-Length: 200000"), 413),
    (post(b" " * 140_000, "Content-Length: 99999999999"), 413),
    (post(b"1\r\n \r\n" * 140_000, "Transfer-Encoding: chunked"), 413),
    (request(KNOWN + "?a=" + "1" * 8_200), 414),
    (b"GET /" + b"1" * 40_000, 414),
    (request(KNOWN, *(f"X-{number}: 1" for number in range(100))), 431),
    (request(KNOWN, "X-A: " + "1" * 9_000), 431),
    (b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * 5_000, 431),
    (request(KNOWN, "Content-Length: 5", "Transfer-Encoding: chunked"), 400),
    (request(KNOWN, "Content-Length: 5", "Content-Length: 6"), 400),
    (request(KNOWN, "Content-Length: -5"), 400),
    (request(KNOWN, "Content-Length: +5"), 400),
    (request(KNOWN, "Transfer-Encoding: nonsense"), 400),
    (request(KNOWN, "Transfer-Encoding: chunked, chunked"), 400),
    (request(KNOWN, "Host: there"), 400),
    (request(KNOWN, "X-A : 1"), 400),
    (request(KNOWN, " folded: 1"), 400),
    (request(KNOWN, "X-Request-Id: a\rb"), 400),
    (request(KNOWN, "X-Request-Id: a\x00b"), 400),
    (request(KNOWN, "X-Request-Id: " + "a" * 10_000), 431),
    (request(KNOWN, "X-Deadline-Ms: soon"), 400),
    (request("no-slash"), 400),
    (request("/v1/words/%ff"), 400),
    (request("*"), 400),
    (request("/ä"), 400),
    (b"GET /\r\n\r\n", 400),
    (b"GET / HTTP/3.0\r\n\r\n", 400),
    (b"GET / HTTP/1.1\nHost: here\n\n", 400),
    (b"GET / HTTP/1.1\r\nHost: here\nX-A: 1", 400),
    (b"\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
]
"""Requests that are none, and the statuses of the answers."""


@pytest.mark.parametrize(
    ("sent", "status"), HOSTILE, ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else value
)
def test_a_request_that_is_none(server: str, sent: bytes, status: int) -> None:
    assert refused(server, sent) == status


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


def test_a_request_id_that_is_none_is_replaced(server: str) -> None:
    for text in ("a" * 8_000, "a b", "<script>", "a\tb", "a; drop"):
        response, _ = answer(server, request(KNOWN, f"X-Request-Id: {text}"))
        assert (response.status, len(response.headers["X-Request-Id"])) == (200, 32)


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
        received = b""
        while chunk := client.recv(65_536):
            received += chunk
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"404", b"200"]


@pytest.mark.parametrize("asked", [1, 3])
def test_a_client_that_sends_no_more_gets_its_answers(server: str, asked: int) -> None:
    with connect(server) as client:
        client.sendall(request(KNOWN, WAITING, "X-Deadline-Ms: 300") * asked)
        client.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := client.recv(65_536):
            received += chunk
    assert len(re.findall(rb"HTTP/1.1 \d+", received)) == asked


def test_a_client_that_sends_no_more_within_a_request_is_left(server: str) -> None:
    with connect(server) as client:
        client.sendall(request(KNOWN) + UNREAD)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(4)
        received = b""
        while chunk := client.recv(65_536):
            received += chunk
    assert received.startswith(b"HTTP/1.1 200")


ASKING = """
    import java.net.URI;
    import java.net.http.*;

    class Asking {
        public static void main(String[] arguments) throws Exception {
            var client = HttpClient.newHttpClient();
            for (var body : new String[] {"{\\"numbers\\": [7]}", "{\\"numbers\\": [8]}"}) {
                var sent = HttpRequest.BodyPublishers.ofString(body);
                var request = HttpRequest.newBuilder(URI.create(arguments[0])).POST(sent).build();
                var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
                System.out.println(answer.statusCode() + " " + answer.version() + " " + answer.body());
            }
        }
    }
"""


def test_a_client_of_java_which_asks_for_another_protocol_posts_its_body(server: str, tmp_path: Path) -> None:
    source = tmp_path / "Asking.java"
    source.write_text(ASKING)
    done = subprocess.run(["java", source, f"http://{server}/v1/many"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["200", "HTTP_1_1"]] * 2
    assert '"count":1' in lines[0]


HALF = b"GET /v1/numbers/7 HTTP/1.1\r\nHost: here\r\nX-A: "
UNREAD = b"POST /v1/numbers/7 HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n1"
LEFT_OPEN = request(KNOWN, "Connection: close")


@pytest.mark.parametrize("sent", [HALF, UNREAD, LEFT_OPEN, b""], ids=["half a head", "half a body", "open", "silent"])
def test_clients_that_are_slow_do_not_keep_others_waiting(server: str, sent: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(1_100):
            stack.enter_context(connect(server)).sendall(sent)
        until(lambda: answer(server, request(KNOWN))[0].status == 200)


def test_a_head_that_never_ends_is_cut_off(server: str) -> None:
    with connect(server) as client:
        client.settimeout(10)
        client.sendall(HALF)
        assert client.recv(1) == b""


@contextmanager
def busy(address: str) -> Iterator[list[socket.socket]]:
    """As many requests as there is room for, none of which can be answered yet."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(address)) for _ in range(ROOM)]
        for client in clients:
            client.sendall(request(KNOWN, WAITING, "X-Deadline-Ms: 1000"))
        until(lambda: answer(address, request(KNOWN))[0].status == 503)
        assert select.select(clients, [], [], 0)[0] == []
        yield clients
    until(lambda: answer(address, request(KNOWN))[0].status == 200)


def test_more_than_there_is_room_for_is_refused_at_once(server: str) -> None:
    with connect(server) as client, busy(server) as waiting:
        for _ in range(3):
            response, body = ask(client, request(KNOWN))
            assert (response.status, body["type"]) == (503, "urn:streamstate:problem:overloaded")
            assert int(response.headers["Retry-After"]) >= 1
            assert response.headers["Content-Type"] == "application/problem+json"
        assert select.select(waiting, [], [], 0)[0] == []
        for refused in waiting:
            assert refused.recv(65_536).startswith(b"HTTP/1.1 503 ")
        assert ask(client, request(KNOWN))[0].status == 200


def test_status_is_told_however_busy_it_is(server: str) -> None:
    with busy(server) as waiting:
        assert answers(f"http://{server}/livez")
        assert answers(f"http://{server}/readyz")
        text = scraped(server)
        assert select.select(waiting, [], [], 0)[0] == []
    assert sample(text, "streamstate_refused_requests_total", problem="overloaded")


def test_what_the_parser_refuses_is_counted_too(server: str) -> None:
    refused(server, request(KNOWN, "X-A : 1"))
    text = scraped(server)
    assert sample(text, "streamstate_refused_requests_total", problem="malformed-request")


def test_a_bug_is_logged_without_saying_who_was_asked_for(tmp_path: Path) -> None:
    address = f"{LOCALHOST}:{free_port()}"
    child = started(address, tmp_path)
    try:
        response, body = answer(address, request(f"/v1/numbers/{SPOILT}"))
        assert (response.status, body["type"]) == (500, "urn:streamstate:problem:internal")
    finally:
        child.stop()
    bug, failed = lines = logged(child)
    assert bug["exception"].endswith("KeyError: 'count'")
    assert (bug["event"], failed["event"]) == ("a request failed", "slow or failed")
    assert {line["request_id"] for line in lines} == {response.headers["X-Request-Id"]}
    assert str(SPOILT) not in child.log.read_text()


def test_every_request_is_logged_where_that_is_set_without_saying_who_was_asked_for(tmp_path: Path) -> None:
    address = f"{LOCALHOST}:{free_port()}"
    child = started(address, tmp_path, ACCESS_LOG="true")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    try:
        answer(
            address, request("/v1/numbers/404404", f"X-Request-Id: mine\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01")
        )
        answer(address, request("/v1/numbers/404404", "traceparent: 00-zz"))
    finally:
        child.stop()
    lines = [line for line in logged(child) if line["status"] == 404]
    assert [line["event"] for line in lines] == ["answered", "answered"]
    assert {line["route"] for line in lines} == {"/v1/numbers/<key>"}
    assert [(line["request_id"] == "mine", line.get("trace_id")) for line in lines] == [(True, trace), (False, None)]
    assert all(line["ms"] >= 0 and line["timestamp"].endswith("Z") for line in lines)
    assert "404404" not in child.log.read_text()


def logged(child: Child) -> list[dict[str, Any]]:
    return [json.loads(line) for line in child.log.read_text().splitlines()]


def test_no_request_id_is_given_again_by_the_next_worker(tmp_path: Path) -> None:
    address = f"{LOCALHOST}:{free_port()}"
    child = started(address, tmp_path)
    try:
        before = request_ids(address)
        (worker,) = psutil.Process(child.pid).children()
        worker.kill()
        worker.wait()
        child.wait_until(lambda: answers(f"http://{address}{KNOWN}"), timeout=30)
        assert before.isdisjoint(request_ids(address))
    finally:
        child.stop()


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
    address = f"{LOCALHOST}:{free_port()}"
    child = started(address, tmp_path)
    try:
        with connect(address) as kept:
            assert ask(kept, request(KNOWN))[0].status == 200
            os.kill(child.pid, signal.SIGTERM)
            until(lambda: refuses(address))
            response, _ = ask(kept, request(KNOWN))
            assert (response.status, response.headers["Connection"]) == (200, "close")
    finally:
        assert child.stop() == 0


def test_a_page_that_is_unchanged_is_not_sent_again_and_the_connection_is_kept(server: str) -> None:
    with urllib3.connection_from_url(f"http://{server}", maxsize=1) as pool:
        page = pool.request("GET", "/docs")
        again = pool.request("GET", "/docs", headers={"If-None-Match": page.headers["ETag"]})
        assert (page.status, again.status, again.data) == (200, 304, b"")
        assert pool.request("GET", KNOWN).status == 200
        assert pool.num_connections == 1
