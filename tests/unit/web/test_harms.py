"""Clients that do harm, against a real gunicorn with our settings: the others are answered as before."""

import selectors
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from devkit.cluster.local_cluster import answers
from devkit.repeating import repeating
from devkit.servers.child_process import LOCALHOST, Child, free_port
from tests.serving import sample, scraped
from tests.unit.web.hostile import HALF
from tests.unit.web.process import KNOWN, answer, ask, connect, post, request, serving, whole
from tests.waiting import QUIET_S, REQUEST_S, until

ROOM, BURST = 1_000, 640
MOST_BYTES = 65_536
DEMANDS = 256
ANSWERED = b"HTTP/1.1 200 "
NEVER = "X-Min-Position: numbers:3=99"
UNMET = b"HTTP/1.1 400 "
"""The answer to `NEVER`, after the wait: the position is behind the end of the topic."""


@pytest.fixture(scope="module")
def probes() -> str:
    return f"{LOCALHOST}:{free_port()}"


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory, probes: str) -> Iterator[Child]:
    settings = {"CONNECTIONS": str(ROOM), "PROBE_PORT": probes.rpartition(":")[2]}
    with serving(tmp_path_factory.mktemp("harms"), **settings) as child:
        yield child


def worker_of(child: Child) -> psutil.Process:
    (worker,) = psutil.Process(child.pid).children()
    return worker


def ended(worker: psutil.Process, clients: list[socket.socket]) -> bool:
    """Whether the server holds none of the connections of `clients`."""
    held = {tuple(one.raddr) for one in worker.net_connections() if one.raddr}
    return not held & {client.getsockname() for client in clients}


@contextmanager
def others_are_answered(child: Child) -> Iterator[psutil.Process]:
    """Other clients send requests without failure while the block runs; yields the worker, which stays the same."""
    worker = worker_of(child)

    def ask() -> int | str:
        try:
            return answer(child.name, request(KNOWN))[0].status
        except OSError as error:
            return repr(error)

    with repeating(ask) as found:
        yield worker
    assert set(found) == {200}
    assert psutil.Process(child.pid).children() == [worker], "the worker was replaced"


def test_a_thousand_half_heads_and_a_byte_more_on_each(child: Child) -> None:
    worker = worker_of(child)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(child.name)) for _ in range(ROOM + 10)]
        for client in clients:
            client.sendall(HALF)
        # A later client that is answered and stays proves that all earlier clients were accepted.
        assert ask(stack.enter_context(connect(child.name)), request(KNOWN))[0].status == 200
        worker.suspend()
        # One turn of the loop finds both: somebody new, for whom the oldest has to go, and a byte of the oldest.
        stack.enter_context(connect(child.name))
        for client in clients:
            with suppress(OSError):
                client.sendall(b"1")
        with others_are_answered(child):
            worker.resume()
            assert clients[-1].recv(1) == b""


def test_a_burst_of_connections_waits_to_be_accepted(child: Child) -> None:
    """The queue of the listening socket has room for all: who finds none cannot connect while nobody accepts."""
    worker = worker_of(child)
    with ExitStack() as stack:
        worker.suspend()
        try:
            clients = [stack.enter_context(connect(child.name)) for _ in range(BURST)]
            for client in clients:
                client.sendall(request(KNOWN))
        finally:
            worker.resume()
        assert {client.recv(len(ANSWERED)) for client in clients} == {ANSWERED}


def test_new_clients_do_not_wait_for_those_that_ask_without_pause(child: Child) -> None:
    answers = Counter[socket.socket]()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(BURST):
            client = stack.enter_context(connect(child.name))
            selector.register(client, selectors.EVENT_READ, client)
            client.send(request(KNOWN))
        while len(answers) < BURST:
            for key, _ in selector.select():
                assert key.data.recv(MOST_BYTES).startswith(b"HTTP/1.1 200")
                answers[key.data] += 1
                key.data.send(request(KNOWN))
    assert max(answers.values()) < 20


def test_without_a_free_file_descriptor_new_clients_wait(child: Child) -> None:
    worker = worker_of(child)
    limits = worker.rlimit(psutil.RLIMIT_NOFILE)
    with connect(child.name) as client:
        assert ask(client, request(KNOWN))[0].status == 200
        worker.rlimit(psutil.RLIMIT_NOFILE, (0, limits[1]))
        with connect(child.name) as late:
            try:
                late.send(request(KNOWN))
                assert ask(client, request(KNOWN))[0].status == 200
                late.settimeout(QUIET_S)
                with pytest.raises(TimeoutError):
                    late.recv(1)
            finally:
                worker.rlimit(psutil.RLIMIT_NOFILE, limits)
            late.settimeout(REQUEST_S)
            assert late.recv(MOST_BYTES).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", [HALF, b"no head\r\n\r\n"], ids=["half a head", "no head"])
def test_connections_that_have_ended_leave_no_memory_behind(child: Child, sent: bytes) -> None:
    worker = worker_of(child)

    def memory_after(connections: int) -> int:
        for _ in range(connections):
            with connect(child.name) as client:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                whole(client)
        return int(worker.memory_info().rss)

    before = memory_after(ROOM)
    assert memory_after(5 * ROOM) - before < 3_000_000


def test_bodies_that_do_not_come_keep_nobody_out(tmp_path: Path) -> None:
    heads = [post(b"{", "Content-Length: 9999"), post(b"1\r\n{\r\n", "Transfer-Encoding: chunked")]
    with (
        serving(tmp_path, REQUESTS_IN_FLIGHT="16", DEADLINE_MS="4000") as child,
        others_are_answered(child) as worker,
        ExitStack() as stack,
    ):
        clients = [stack.enter_context(connect(child.name)) for _ in range(200)]
        for number, client in enumerate(clients):
            client.sendall(heads[number % 2])
        for client in clients:
            client.settimeout(REQUEST_S)
            assert client.recv(65_536).startswith(b"HTTP/1.1 408 ")
        until(lambda: ended(worker, clients))


def test_readers_that_do_not_read_are_ended(child: Child, probes: str) -> None:
    with others_are_answered(child) as worker, ExitStack() as stack:
        clients = []
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            # Of segments as large as the loopback has them, the kernel would take 4 MB from the server for each client.
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            client.connect((LOCALHOST, int(child.name.partition(":")[2])))
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.send(request("/metrics") * 2_000)
            clients.append(client)
        until(lambda: answers(f"http://{probes}/livez") and ended(worker, clients))


def test_demands_that_cannot_be_met_wait_and_are_bounded(child: Child, probes: str) -> None:
    with others_are_answered(child), ExitStack() as stack:
        clients = [stack.enter_context(connect(child.name)) for _ in range(300)]
        for client in clients:
            client.sendall(request(KNOWN, NEVER, "X-Deadline-Ms: 1500"))
        until(lambda: sum(map(_answered, clients)) == 300 - DEMANDS)
        assert answers(f"http://{probes}/readyz")
        for client in clients:
            client.setblocking(True)
            # All that wait are answered at once: the last of them may pass their deadline.
            assert client.recv(65_536).startswith((UNMET, b"HTTP/1.1 503 ", b"HTTP/1.1 504 "))


def _answered(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_of_too_many_connections_the_one_that_waits_for_longest_goes(tmp_path: Path) -> None:
    with serving(tmp_path, CONNECTIONS="32") as child, ExitStack() as stack:
        first = stack.enter_context(connect(child.name))
        assert ask(first, request(KNOWN))[0].status == 200
        for _ in range(64):
            stack.enter_context(connect(child.name))
        assert answer(child.name, request(KNOWN))[0].status == 200
        assert first.recv(1) == b""


def test_counts_of_all_workers_are_added_up(tmp_path: Path) -> None:
    with serving(tmp_path, WORKERS="2") as child:
        for _ in range(40):
            answer(child.name, request(KNOWN))
        for _ in range(6):
            assert (sample(scraped(child.name), "streamstate_requests_total", route=COUNTED) or 0) >= 41
        assert len(psutil.Process(child.pid).children()) == 2


COUNTED = "/v1/numbers/<key>"
"""The route of `KNOWN`."""
