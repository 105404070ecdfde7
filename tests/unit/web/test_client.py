"""Calls to instances: ended connections, missing owners, passed deadlines."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from devkit.servers.child_process import free_port
from streamstate.web.client.instances import ANYONE, InstanceUnreachable
from streamstate.web.http.problems import Problem
from tests.serving import Loop, soon
from tests.waiting import pause, pausing

REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServed-By: me\r\nContent-Length: 2\r\n\r\n{}"
OTHER_REPLY = REPLY.replace(b"{}", b"[]")

Scripted = Callable[[list[int]], tuple[str, list[bytes]]]


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """Serves one connection after the other: each answers as many requests as the list says, and ends at the next."""
    with ExitStack() as stack:

        def start(connections: list[int]) -> tuple[str, list[bytes]]:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            requests: list[bytes] = []

            def run() -> None:
                for answered in connections:
                    connection, _ = server.accept()
                    with connection:
                        for left in range(answered, -1, -1):
                            request = connection.recv(65_536)
                            requests.extend([request] if request else [])
                            if not request or not left:
                                break
                            connection.sendall(REPLY)

            def until_closed() -> None:
                with suppress(OSError):
                    run()

            threading.Thread(target=until_closed, daemon=True).start()
            return f"127.0.0.1:{server.getsockname()[1]}", requests

        yield start


def test_a_request_carries_what_is_left_of_the_deadline_and_its_marks(scripted: Scripted, loop: Loop) -> None:
    address, requests = scripted([2])
    client = loop.instances()
    loop.run(client.get(address, "/", soon(3)))
    loop.run(client.get(address, "/", soon(3), marks=ANYONE))
    (left,) = [line for line in requests[0].split(b"\r\n") if line.startswith(b"X-Deadline-Ms: ")]
    assert 1_000 < int(left.partition(b": ")[2]) <= 3_000
    assert b"\r\nX-Direct: 1\r\n" in requests[0]
    assert b"X-Direct" not in requests[1]


def test_a_kept_connection_that_ends_under_a_request_is_opened_again(scripted: Scripted, loop: Loop) -> None:
    address, requests = scripted([1, 9])
    client = loop.instances()
    loop.run(client.get(address, "/1", soon()))
    assert loop.run(client.get(address, "/2", soon())).status == 200
    assert [request.split()[1] for request in requests] == [b"/1", b"/2", b"/2"]


@contextmanager
def answering(*connections: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address where the first connection is served by the first function, and so on, each once it has asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in connections:
                connection, _ = server.accept()
                connection.recv(65_536)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def reply(connection: socket.socket) -> None:
    with connection:
        connection.sendall(REPLY)


def test_a_kept_connection_that_was_reset_while_idle_is_opened_again(loop: Loop) -> None:
    reset = threading.Event()

    def reply_and_reset(connection: socket.socket) -> None:
        connection.sendall(REPLY)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        reset.set()

    client = loop.instances()
    with answering(reply_and_reset, reply) as address:
        loop.run(client.get(address, "/1", soon()))
        reset.wait()
        # The loop learns of the reset before the next request.
        loop.run(pausing(0.05))
        assert loop.run(client.get(address, "/2", soon())).status == 200


@pytest.mark.parametrize("sent", [[REPLY + OTHER_REPLY], [REPLY, OTHER_REPLY], [REPLY + OTHER_REPLY[:9]]])
def test_a_second_answer_is_not_taken_for_that_to_the_next_request(loop: Loop, sent: list[bytes]) -> None:
    kept_open: list[socket.socket] = []

    def reply_too_often(connection: socket.socket) -> None:
        kept_open.append(connection)
        for answers in sent:
            connection.sendall(answers)
            pause(0.05)

    client = loop.instances()
    with answering(reply_too_often, reply) as address:
        loop.run(client.get(address, "/1", soon()))
        loop.run(pausing(0.1))
        assert loop.run(client.get(address, "/2", soon())).body == b"{}"
    kept_open[0].close()


def test_an_address_where_nobody_listens_is_unreachable(loop: Loop) -> None:
    with pytest.raises(InstanceUnreachable):
        loop.run(loop.instances().get(f"127.0.0.1:{free_port()}", "/", soon()))


def test_an_instance_that_does_not_answer_in_time_is_unreachable(loop: Loop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(InstanceUnreachable):
        loop.run(loop.instances().get(f"127.0.0.1:{silent.getsockname()[1]}", "/", soon(0.1)))


def test_a_deadline_that_has_passed_asks_nobody(scripted: Scripted, loop: Loop) -> None:
    address, requests = scripted([1])
    with pytest.raises(Problem, match="within the deadline"):
        loop.run(loop.instances().get(address, "/", soon(-1)))
    assert requests == []


@pytest.mark.parametrize("answer", [REPLY.replace(b"application/json", b"text/html"), b"HTTP/1.1 what\r\n\r\n", b"{}"])
def test_what_is_no_answer_in_json_is_none(loop: Loop, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(InstanceUnreachable):
            loop.run(loop.instances().get(f"127.0.0.1:{server.getsockname()[1]}", "/", soon()))
