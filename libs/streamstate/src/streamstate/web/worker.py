"""Gunicorn's threaded worker, hardened: a client that is slow, or sends nonsense, keeps no thread busy."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ

from gunicorn.http import Request, RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker

from streamstate.web import heads, refusals
from streamstate.web.admission import Admission
from streamstate.web.problems import Problem

PATIENCE_S = 5.0
"""How long a client may take for the head of a request, or to close a connection after its last answer."""

STATUS_THREADS = 3
"""One for each of /livez, /readyz and /metrics, which are answered however many requests there are."""

_CHUNK = 65_536


class Worker(ThreadWorker):
    """One loop that waits for clients, and threads that get requests whose heads are whole.

    Requests are read here and not in a thread, since a thread that waits for the rest of a head is lost to others; as
    is the loop while it waits for a client to close. Bodies are not read at all: nothing here takes one. What cannot be
    parsed is answered by a problem, and so is a request for which there is no room, before it costs anything.
    For plain HTTP/1; TLS is for the proxy before it.
    """

    def init_process(self) -> None:
        self._status_threads = ThreadPoolExecutor(STATUS_THREADS, "status")
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self._admission = Admission.of(self.wsgi)

    def accept(self, listener: socket.socket) -> None:
        """Take a new connection; when there are as many as there may be, the one that has waited longest goes."""
        super().accept(listener)
        if self.nr_conns >= self.worker_connections and (waiting := self.pending_conns or self.keepalived_conns):
            conn = waiting.popleft()
            self.poller.unregister(conn.sock)
            self._drop(conn)

    def set_accept_enabled(self, enabled: bool | None) -> None:
        """Take new connections or let them wait; a worker that ends refuses them, so that clients go elsewhere."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                listener.close()

    def on_client_socket_readable(self, conn: TConn, client: socket.socket) -> None:
        """Take the next request on, or turn it away where it is: when most are, that must cost next to nothing."""
        if self._admission.full and self.alive and heads.plain(_received(conn) or b""):
            self._turn_away(conn)
        else:
            super().on_client_socket_readable(conn, client)

    def enqueue_req(self, conn: TConn) -> None:
        """Take the next request of `conn` on when its head is whole, else wait for more of it."""
        received = _received(conn)
        if received is None:
            self._drop(conn)
        elif heads.too_large(received):
            self._refuse(conn, refusals.too_large(received))
        elif heads.whole(received):
            self._take_on(conn, received)
        else:
            self._wait(conn, self._on_more)

    def finish_request(self, conn: TConn, fs: Future[bool]) -> None:
        """Wait for the next request of `conn`, or for the client to close it."""
        if fs.exception() is None and fs.result():
            super().finish_request(conn, fs)
        else:
            self._linger(conn)

    def handle_request(self, req: Request, conn: TConn) -> bool:
        if any(name in ("CONTENT-LENGTH", "TRANSFER-ENCODING") for name, _ in req.headers):
            # Nobody reads the body, so nobody knows where the next request would begin.
            req.force_close()
        return super().handle_request(req, conn)

    def handle_error(self, req: Request | None, client: socket.socket, addr: object, exc: BaseException) -> None:  # noqa: ARG002
        """Answer a request that cannot be parsed (then there is no `req`), from a thread."""
        problem = refusals.problem_of(exc) if req is None else refusals.INTERNAL
        if problem.status >= 500:
            self.log.error("a request failed outside of the application", exc_info=exc)
        self._admission.refused(problem.kind)
        _send(client, refusals.answer(problem))

    def _take_on(self, conn: TConn, received: bytes) -> None:
        if heads.asks_for_status(received):
            self._hand_over(conn, self._status_threads, self.finish_request)
        elif not self._admission.full:
            self._admission.enter()
            self._hand_over(conn, self.tpool, self._leave)
        elif self.alive and heads.plain(received):
            self._turn_away(conn)
            conn.set_timeout()
            self.keepalived_conns.append(conn)
            self.poller.register(conn.sock, EVENT_READ, partial(self.on_client_socket_readable, conn))
        else:
            self._refuse(conn, refusals.OVERLOADED)

    def _hand_over(self, conn: TConn, threads: ThreadPoolExecutor, then: Callable[[TConn, Future[bool]], None]) -> None:
        done = threads.submit(self.handle, conn)
        done.add_done_callback(partial(self.method_queue.defer, then, conn))

    def _leave(self, conn: TConn, fs: Future[bool]) -> None:
        self._admission.leave()
        self.finish_request(conn, fs)

    def _turn_away(self, conn: TConn) -> None:
        """Refuse a request for want of room, and keep the connection: a new one would cost more than this."""
        self._admission.refused(refusals.OVERLOADED.kind)
        _parser(conn).unreader.take_buffered()
        _send(conn.sock, refusals.GO_ON_LATER)

    def _refuse(self, conn: TConn, problem: Problem) -> None:
        self._admission.refused(problem.kind)
        _send(conn.sock, refusals.answer(problem))
        self._linger(conn)

    def _wait(self, conn: TConn, readable: Callable[[TConn], None]) -> None:
        """Call `readable` whenever the client has sent something; the connection ends when time is up."""
        conn.timeout = time.monotonic() + PATIENCE_S
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, EVENT_READ, lambda _: readable(conn))

    def _waited(self, conn: TConn) -> None:
        self.poller.unregister(conn.sock)
        self.pending_conns.remove(conn)

    def _on_more(self, conn: TConn) -> None:
        received = _received(conn)
        if received is None or heads.too_large(received) or heads.whole(received):
            self._waited(conn)
            self.enqueue_req(conn)

    def _linger(self, conn: TConn) -> None:
        """Close so that the client gets the whole answer: not while it may still send (RFC 9112, section 9.6)."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
        else:
            self._wait(conn, self._on_rest)

    def _on_rest(self, conn: TConn) -> None:
        if _read(conn.sock) == b"":
            self._waited(conn)
            self._drop(conn)

    def _drop(self, conn: TConn) -> None:
        self.nr_conns -= 1
        conn.close()


def _received(conn: TConn) -> bytes | None:
    """All that came of the next request so far, None when the client is gone."""
    conn.init()
    unreader = _parser(conn).unreader
    received = unreader.take_buffered()
    if not heads.whole(received):
        more = _read(conn.sock)
        if more == b"":
            return None
        received += more or b""
    unreader.unread(received)
    return received


def _parser(conn: TConn) -> RequestParser:
    assert isinstance(conn.parser, RequestParser)
    return conn.parser


def _read(sock: socket.socket) -> bytes | None:
    """What has come, None when nothing has, empty when nothing will."""
    try:
        return sock.recv(_CHUNK, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _send(sock: socket.socket, answer: bytes) -> None:
    """Send a few hundred bytes to a client, if it takes them."""
    with suppress(OSError):
        sock.send(answer, socket.MSG_DONTWAIT)
