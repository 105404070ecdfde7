"""One connection of a server: an ASGI application answers its requests, one at a time."""

import asyncio
import logging
import socket
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from strictasgi.incoming import Head, Incoming
from strictasgi.lifespan import ASGI
from strictasgi.refusals import UNANSWERED, Refusal

if TYPE_CHECKING:
    from strictasgi.server import Server

log = logging.getLogger("strictasgi")

EXTENSION = "strictasgi"
"""In a scope's extensions: `accepted`, the time of the complete head (seconds of the loop), and `send_unqueued`.

An application calls `send_unqueued` before an answer of unknown length: `send` then waits until the client has taken
the sent bytes, and `receive` returns `http.disconnect` when the server ends.
"""

MOST_HELD = 64 * 1024
"""Unused bytes of a body, or of further requests, at which reading pauses."""

MOST_UNSENT = 16 * 1024
"""Unsent bytes of an answer of unknown length in the kernel."""

_STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus}
_WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_LENGTH, _CODING = b"content-length", b"transfer-encoding"


class ServerConnection(asyncio.Protocol):
    """A connection, among the `waiting` connections of its server unless a request is in progress."""

    _transport: asyncio.Transport
    _head: Head
    """The head of the request in progress."""

    def __init__(self, server: "Server", loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._incoming = Incoming()
        self._ahead = b""
        """The bytes behind the request in progress."""
        self._accepted: float | None = None
        """The time of the complete head of the request in progress (seconds of the loop)."""
        self._answering: asyncio.Task[None] | None = None
        self._begun = False
        """A part of the answer has been sent."""
        self._ends = False
        """Neither reads nor answers follow."""
        self._half_closed = False
        """The client has closed its side, and may still read."""
        self._goes_on = False
        """The answer in progress has an unknown length."""
        self._awaiting: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._endpoints = {
            "scheme": "https" if transport.get_extra_info("ssl_object") else "http",
            "client": peer and peer[:2],
            "server": transport.get_extra_info("sockname")[:2],
        }
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
        """Whether the connection stays open after the client has closed its side: an answer is in progress."""
        self._half_closed = True
        # A TLS transport cannot stay half open.
        return self._owes and self._transport.can_write_eof()

    @property
    def _owes(self) -> bool:
        return self._accepted is not None and self._incoming.whole and not self._goes_on

    def end(self) -> None:
        """Close now, without an answer."""
        self._transport.abort()

    def leave(self) -> None:
        """End an answer of unknown length: the server ends."""
        _wake(self._awaiting)

    def data_received(self, data: bytes) -> None:
        # After a refusal, the client may still send: unread bytes could lose the answer (RFC 9112, section 9.6).
        if not self._ends:
            self._take(data)

    def _take(self, data: bytes) -> None:
        incoming = self._incoming
        if not incoming.whole:
            data = incoming.feed(data)
            if incoming.refusal is not None:
                self._refuse(incoming.refusal)
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
        self._given = self._chunked = self._answered = False
        self._unsent = b""
        scope = {
            "type": "http",
            "asgi": ASGI,
            "http_version": "1.0" if head.old else "1.1",
            "method": head.method,
            "path": unquote(head.path.decode()),
            "raw_path": head.path,
            "query_string": head.query,
            "headers": head.fields,
            "root_path": "",
            "state": self._server.lifespan.state.copy(),
            "extensions": {EXTENSION: {"accepted": self._accepted, "send_unqueued": self._send_unqueued}},
            **self._endpoints,
        }
        self._answering = self._loop.create_task(self._answer(scope))

    async def _answer(self, scope: MutableMapping[str, Any]) -> None:
        try:
            await self._server.application(scope, self._receive, self._send)
        except Exception:
            log.exception("a request failed")
        self._accepted = self._answering = None
        if self._ends:
            return
        if not self._answered:
            self._refuse(UNANSWERED)
        elif not self._incoming.whole:
            # Unread bytes of the body could lose the answer: read the rest, then close.
            self._linger()
        elif self._last:
            self._transport.close()
        else:
            self._begun = False
            self._incoming.next()
            self._server.waiting.keep(self)
            if self._ahead:
                ahead, self._ahead = self._ahead, b""
                self._resume_reading()
                self._take(ahead)
            if self._half_closed and not self._owes:
                self._transport.close()

    async def _receive(self) -> Mapping[str, Any]:
        """ASGI's `receive`: a part of the body, or `http.disconnect`."""
        incoming = self._incoming
        while not (self._ends or self._answered or (self._goes_on and not self._server.alive)):
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
        """ASGI's `send`: returns when the client has room for more, or has left."""
        if message["type"] == "http.response.start":
            self._start(message["status"], message.get("headers", ()))
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body += b"" if more else b"0\r\n\r\n"
        self._write(self._unsent + body if self._with_body else self._unsent)
        self._unsent, self._begun = b"", True
        if not more:
            self._answered = True
            _wake(self._awaiting)
        if self._writable is not None:
            await self._writable

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Make the head of an answer; `_send` sends it with the first part of the body."""
        fields, names, incoming, kept = [], [], self._incoming, self._head.kept
        for name, value in headers:
            lower = name.lower()
            # The coding is the server's choice.
            if lower != _CODING:
                fields.append(b"%b: %b" % (name, value))
                names.append(lower)
        self._with_body = self._head.method != "HEAD" and status not in _WITHOUT_BODY
        if self._with_body and _LENGTH not in names:
            # For a client of HTTP/1.0, the end of the connection is the end of the body.
            self._chunked = not self._head.old
            kept = kept and self._chunked
            fields += [b"Transfer-Encoding: chunked"] if self._chunked else []
        self._last = incoming.overrun or not (kept and incoming.whole and self._server.alive)
        if self._last:
            fields.append(b"Connection: close")
        elif self._head.old:
            fields.append(b"Connection: keep-alive")
        self._unsent = _joined(status, [*fields, self._server.date])

    def _write(self, data: bytes) -> None:
        # uvloop raises RuntimeError for a write to a reset connection.
        if not (self._ends or self._transport.is_closing()):
            self._transport.write(data)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with `refusal`, if no other answer has begun, and end the connection."""
        content_type, body = self._server.refuse(refusal)
        if self._begun:
            self.end()
            return
        fields = [
            b"Content-Type: " + content_type,
            b"Content-Length: %d" % len(body),
            b"Cache-Control: no-store",
            b"Connection: close",
            self._server.date,
        ]
        self._write(_joined(refusal.status, fields) + body)
        self._linger()

    def _linger(self) -> None:
        """Close after the client has had time to read the sent bytes."""
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
        # A closing transport raises RuntimeError.
        with suppress(RuntimeError):
            self._transport.resume_reading()

    def _send_unqueued(self) -> None:
        """Make `send` wait until the client has taken the sent bytes, instead of queueing."""
        self._goes_on = True
        self._server.streams.add(self)
        self._transport.set_write_buffer_limits(high=0)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MOST_UNSENT)


def _joined(status: int, fields: list[bytes]) -> bytes:
    """The head of an answer. Raises `ValueError` for a field with a line break, which would end the head."""
    head = b"\r\n".join([_STATUS.get(status) or b"HTTP/1.1 %d " % status, *fields, b"", b""])
    if head.count(b"\n") != len(fields) + 2 or head.count(b"\r") != len(fields) + 2:
        msg = "a header of an answer has a line break"
        raise ValueError(msg)
    return head


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
