"""One connection of a server: what comes is answered by an ASGI application, one request at a time."""

import asyncio
import socket
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Protocol, cast
from urllib.parse import unquote

import structlog

from streamstate.web.http.incoming import Head, Incoming
from streamstate.web.http.problems import CONTENT_TYPE, Problem, encoded
from streamstate.web.server.asgi import ACCEPTED, UNQUEUED, Asgi
from streamstate.web.serving.turns import Turns
from streamstate.web.serving.waiting import Waiting

log = structlog.get_logger()

MOST_HELD = 64 * 1024
"""Bytes of a body, or behind a request, from which on no more is read before those are used."""

MOST_UNSENT = 16 * 1024
"""Bytes of an answer that goes on which the kernel keeps until the client has room for them."""

_STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus}
_INTERNAL = Problem(500, "internal", "this is our fault; tell us when it was")
_WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_LENGTH = b"content-length"


class Server(Protocol):
    """What all connections of a process have in common."""

    asgi: Asgi
    waiting: Waiting
    turns: Turns
    date: bytes
    """The header that tells the time (RFC 9110, section 6.6.1)."""
    alive: bool
    """False from the moment on when it was told to end."""

    def opened(self, connection: "Connection") -> None:
        """There is one more, which waits from now on."""

    def lost(self, connection: "Connection") -> None:
        """There is one less."""


class Connection(asyncio.Protocol):
    """While nothing of it is being answered, it is among the `waiting` ones of its server."""

    _transport: asyncio.Transport
    _head: Head
    """Of the request that is being answered."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._incoming = Incoming()
        self._ahead = b""
        """What came behind the request that is being answered."""
        self._accepted: float | None = None
        """When the head of the request came that is being answered (seconds of the loop)."""
        self._answering: asyncio.Task[None] | None = None
        self._ends = False
        """Nothing is read or answered any more."""
        self._half_closed = False
        """The client sends no more, and may still read."""
        self._goes_on = False
        """What is being answered has no end."""
        self._awaiting: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._address = transport.get_extra_info("sockname")[:2]
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._ends = True
        self._server.lost(self)
        self._incoming.close()
        _wake(self._awaiting)
        _wake(self._writable)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        _wake(self._writable)
        self._writable = None

    def eof_received(self) -> bool:
        """Whether an answer is still owed to a client that sends no more."""
        self._half_closed = True
        # Over TLS, transports cannot stay open.
        return self._owes and self._transport.can_write_eof()

    @property
    def _owes(self) -> bool:
        return self._accepted is not None and self._incoming.whole and not self._goes_on

    def end(self) -> None:
        """Close now, without an answer."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        # Who was told why the connection ends may send still: it is read, or the answer could be lost (RFC 9112, 9.6).
        if not self._ends:
            self._take(data)

    def _take(self, data: bytes) -> None:
        incoming = self._incoming
        if not incoming.whole:
            data = incoming.feed(data)
            if incoming.problem is not None:
                self._refuse(incoming.problem)
                return
            if incoming.head is None:
                self._server.waiting.hurry(self)
            elif self._accepted is None:
                self._accepted = self._loop.time()
                self._server.waiting.cancel(self)
                self._server.turns.begin(self._begin)
            else:
                _wake(self._awaiting)
        self._ahead += data
        if len(self._ahead) + len(incoming.body) > MOST_HELD:
            self._transport.pause_reading()

    def _begin(self) -> None:
        head = self._incoming.head
        if head is None or self._ends:
            return
        self._head = head
        self._given = self._started = self._chunked = self._answered = False
        self._unsent = b""
        scope = {
            "type": "http",
            "method": head.method,
            "path": unquote(head.path.decode()),
            "raw_path": head.path,
            "query_string": head.query,
            "headers": head.fields,
            "server": self._address,
            ACCEPTED: self._accepted,
            UNQUEUED: self._send_unqueued,
        }
        self._answering = self._loop.create_task(self._answer(scope))

    async def _answer(self, scope: MutableMapping[str, Any]) -> None:
        try:
            await self._server.asgi(scope, self._receive, self._send)
        except Exception:
            log.exception("a request failed")
        self._accepted = self._answering = None
        if self._ends:
            return
        if not self._answered:
            self._refuse(_INTERNAL)
        elif not self._incoming.whole:
            # What is left of the body is read, or the answer could be lost, and the connection ends.
            self._linger()
        elif self._last:
            self._transport.close()
        else:
            self._incoming.next()
            self._server.waiting.keep(self)
            if self._ahead:
                ahead, self._ahead = self._ahead, b""
                self._resume_reading()
                self._take(ahead)
            if self._half_closed and not self._owes:
                self._transport.close()

    async def _receive(self) -> Mapping[str, Any]:
        """ASGI's: a part of the body, or that the client has left."""
        incoming = self._incoming
        while not self._ends:
            if incoming.body or (incoming.whole and not self._given):
                body, incoming.body = bytes(incoming.body), bytearray()
                self._given = incoming.whole
                self._resume_reading()
                return {"type": "http.request", "body": body, "more_body": not incoming.whole}
            if self._head.waits and not incoming.whole:
                self._head = self._head._replace(waits=False)
                self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._awaiting = self._loop.create_future()
            await self._awaiting
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        """ASGI's: returns when the client has room for more, or has left."""
        if message["type"] == "http.response.start":
            self._start(message["status"], message["headers"])
            return
        body, more = message["body"], message.get("more_body", False)
        if self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body += b"" if more else b"0\r\n\r\n"
        self._write(self._unsent + body if self._with_body else self._unsent)
        self._unsent = b""
        self._answered = not more
        if self._writable is not None:
            await self._writable

    def _start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Make the head of an answer, which is sent with the first part of its body."""
        fields, incoming, kept = [b"%b: %b" % field for field in headers], self._incoming, self._head.kept
        self._with_body = self._head.method != "HEAD" and status not in _WITHOUT_BODY
        if self._with_body and not any(name.lower() == _LENGTH for name, _ in headers):
            # Who speaks HTTP/1.0 sees by the connection's end where the body ends.
            self._chunked = not self._head.old
            kept = kept and self._chunked
            fields += [b"Transfer-Encoding: chunked"] if self._chunked else []
        self._last = incoming.overrun or not (kept and incoming.whole and self._server.alive)
        if self._last:
            fields.append(b"Connection: close")
        elif self._head.old:
            fields.append(b"Connection: keep-alive")
        self._unsent = _joined(status, [*fields, self._server.date])
        self._started = True

    def _write(self, data: bytes) -> None:
        # uvloop raises RuntimeError for a write to a connection that was reset.
        if not (self._ends or self._transport.is_closing()):
            self._transport.write(data)

    def _refuse(self, problem: Problem) -> None:
        """Answer with `problem`, if no other answer has begun, and end the connection."""
        self._server.asgi.telemetry.refused(problem.kind)
        if self._answering is not None and self._started:
            self.end()
            return
        body = encoded(problem)
        fields = [
            b"Content-Type: " + CONTENT_TYPE.encode(),
            b"Content-Length: %d" % len(body),
            b"Cache-Control: no-store",
            b"Connection: close",
            self._server.date,
        ]
        self._write(_joined(problem.status, fields) + body)
        self._linger()

    def _linger(self) -> None:
        """Send no more, and close when the client has had time to read what was sent."""
        self._ends = True
        _wake(self._awaiting)
        self._server.waiting.hurry(self)
        self._resume_reading()
        with suppress(RuntimeError):
            if self._transport.can_write_eof():
                self._transport.write_eof()
            else:
                self._transport.close()

    def _resume_reading(self) -> None:
        # What is closing reads no more.
        with suppress(RuntimeError):
            self._transport.resume_reading()

    def _send_unqueued(self) -> None:
        """From here on, let who sends wait until the client takes what was sent, and not just until it is queued."""
        self._goes_on = True
        self._transport.set_write_buffer_limits(high=0)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MOST_UNSENT)


def _joined(status: int, fields: list[bytes]) -> bytes:
    """The head of an answer. Raises `ValueError` for a field with a line break, which would end the head."""
    head = b"\r\n".join([_STATUS[status], *fields, b"", b""])
    if head.count(b"\n") != len(fields) + 2 or head.count(b"\r") != len(fields) + 2:
        msg = "a header of an answer has a line break"
        raise ValueError(msg)
    return head


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
