"""Gunicorn's worker for event loops, with what it lacks: a client that sends no whole request does not stay.

Gunicorn limits how long a connection may be idle after an answer, but not how long the first request may take to come,
nor how many connections there are; and it tells of refused requests in plain text.
"""

import socket
from collections import OrderedDict
from http import HTTPStatus
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

from streamstate.access.certificates import Certificates
from streamstate.access.watched_file import LOOK_S
from streamstate.web.http.listener import Listener
from streamstate.web.http.problems import (
    ADDRESS_TOO_LONG,
    CONTENT_TYPE,
    HEADERS_TOO_LARGE,
    MALFORMED,
    MOST_HEAD_BYTES,
    Problem,
    encoded,
)
from streamstate.web.server.asgi import UNQUEUED

PATIENCE_S = 5.0
"""How long the head of a request may take, from the connection or its first byte on."""

MOST_UNSENT = 16 * 1024
"""Bytes of an answer that goes on which the kernel keeps until the client has room for them."""

LINGER_S = 1.0
"""How long connections stay open on which nothing was asked when the process was told to end."""

_REFUSALS = {
    400: MALFORMED,
    # An unknown transfer coding, for which RFC 9112 suggests 501: a 5xx would be counted as our failure.
    501: MALFORMED,
    414: ADDRESS_TOO_LONG,
    431: HEADERS_TOO_LARGE,
}
_INTERNAL = Problem(500, "internal", "this is our fault; tell us when it was")


class Connection(ASGIProtocol):  # type: ignore[misc]  # gunicorn has no annotations
    """One connection. While no request of it is being answered, it is among the `waiting` ones of its worker."""

    worker: "Worker"
    _closed: bool
    _body_receiver: Any

    def connection_made(self, transport: Any) -> None:
        self._timer: Any = None
        self._received = 0
        self._lingers = False
        super().connection_made(transport)
        self.worker.make_room()
        self.worker.waiting[self] = None
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._closed:
            # It was told why it is closed; what it still sends is read, or the answer could be lost (RFC 9112, 9.6).
            return
        super().data_received(data)
        # Nearly every head comes in one piece, and needs no timer.
        if self in self.worker.waiting and not (self._closed or self._request_ready.is_set()):
            self._received += len(data)
            if self._timer is None:
                self._expect_head()
            if self._received > MOST_HEAD_BYTES:
                self._send_error_response(431, "")
                self._close_transport()

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.worker.waiting:
            # Nothing is being answered: the task ends at once, where gunicorn would keep all this for its grace period.
            self._task = None
            self._request_ready.set()
        self._be_busy()
        super().connection_lost(exc)
        # Its callbacks make a cycle, and the garbage collector comes after very many connections.
        self._callback_parser = None

    def send_unqueued(self) -> None:
        """From here on, let who sends wait until the client takes what was sent, and not just until it is queued."""
        self.transport.set_write_buffer_limits(high=0)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MOST_UNSENT)

    def _build_http_scope(self, *arguments: Any) -> dict[str, Any]:
        scope: dict[str, Any] = super()._build_http_scope(*arguments)
        scope[UNQUEUED] = self.send_unqueued
        return scope

    async def _serve_http_request(self, *arguments: Any) -> bool:
        """The head is whole. No task of its own, as gunicorn makes one: nothing of ours goes on after its answer."""
        self._be_busy()
        kept: bool = await self._handle_http_request(*arguments)
        if not self._body_receiver._complete:
            # What is left of the body is read, or the answer could be lost, and the connection ends.
            self._lingers = True
        elif kept and not self._closed:
            self.worker.waiting[self] = None
        return kept

    def _send_error_response(self, status: int, message: str, extra_headers: Any = ()) -> None:  # noqa: ARG002
        problem = _REFUSALS.get(status, _INTERNAL)
        body = encoded(problem)
        head = (
            f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\nContent-Type: {CONTENT_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._safe_write(head.encode() + body)
        self.app.telemetry.refused(problem.kind)
        self._lingers = True

    def _close_transport(self) -> None:
        if self._lingers and self.transport.can_write_eof() and not self._closed:
            self._closed = True
            self.transport.write_eof()
            self._expect_head()
            self._request_ready.set()
        else:
            super()._close_transport()

    def end(self) -> None:
        """Close now, without an answer."""
        if self.transport is not None:
            self.transport.abort()

    def _expect_head(self) -> None:
        self._cancel_timer()
        self._timer = self.worker.loop.call_later(PATIENCE_S, self.end)

    def _be_busy(self) -> None:
        self.worker.waiting.pop(self, None)
        self._received = 0
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# The one place where gunicorn says which class serves a connection.
gasgi.ASGIProtocol = Connection


class Worker(gasgi.ASGIWorker):  # type: ignore[misc]  # gunicorn has no annotations
    """Ends the connection that has waited longest when there are too many."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.waiting: OrderedDict[Connection, None] = OrderedDict()

    async def _serve(self) -> None:
        if self.app.certificates:
            self._renew(self.app.certificates)
        self.loop.create_server = self._listen
        await super()._serve()

    async def _listen(self, factory: Any, *, sock: Any, **_: Any) -> Listener:
        """Listen, with TLS at the first address if at all: the other one is for probes, which know no certificates."""
        tls: dict[str, Any] = {}
        if self.app.certificates and sock is self.sockets[0].sock:
            # A handshake that takes its time holds a connection that is not counted yet.
            tls = {"ssl": self.app.certificates.context, "ssl_handshake_timeout": PATIENCE_S}
        return Listener(self.loop, sock, factory, **tls)

    def _renew(self, certificates: Certificates) -> None:
        certificates.look()
        self.loop.call_later(LOOK_S, self._renew, certificates)

    def make_room(self) -> None:
        """Let a new connection in."""
        if self.nr_conns > self.worker_connections and self.waiting:
            oldest, _ = self.waiting.popitem(last=False)
            oldest.end()

    def handle_exit_signal(self) -> None:
        """Refuse new connections at once, so that clients go elsewhere; answer what was asked."""
        super().handle_exit_signal()
        for server in self.servers:
            server.close()
        self.asgi.end_streams()
        # What is on its way on a connection that was kept is answered still, and told that it closes.
        self.loop.call_later(LINGER_S, self._end_waiting)

    def _end_waiting(self) -> None:
        for connection in list(self.waiting):
            connection.end()
