"""HTTP/1.1 requests without a body over kept connections: a gateway spends most of its time with them.

A client library (aiohttp) does the same for twice the CPU time, since it does much more.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import cast

import httptools

from streamstate.access.certificates import ToInstances
from streamstate.deployment.address import Address
from streamstate.web.http.request import AGE, BEGIN, POSITION, SERVED_BY, Response

CONNECT_S = 0.5
IDLE_S = 60.0
"""Less than a server keeps an idle connection (`web.serving`), so that few are closed under a request."""

CLOSED = "closed by the other side"

MOST_BYTES = 16 * 1024 * 1024
"""The longest body that is taken."""

_HEADERS = {name.lower().encode(): name for name in ("Content-Type", "Retry-After", SERVED_BY, POSITION, BEGIN, AGE)}
"""The headers of an answer that are kept: those that go along with it, whoever passes it on."""


class ClientConnection(asyncio.Protocol):
    """One connection, with one request at a time. `answering` says that part of its answer has come."""

    def __init__(self) -> None:
        self.used_at = 0.0
        self.reusable = False
        self.answering = False
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[Response]:
        """Send a whole request. It ends in `ConnectionError` when no whole answer comes."""
        self.reusable = self.answering = False
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._answer = self._loop.create_future()
        # uvloop raises RuntimeError for a write to a connection that was reset.
        if self._transport.is_closing():
            self._fail(CLOSED)
        else:
            self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self.answering = True
        if self._answer.done():
            # It would be taken for the answer to the next request.
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(str(error))
        if len(self._body) > MOST_BYTES:
            self._fail(f"an answer of more than {MOST_BYTES} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or CLOSED))

    def on_message_begin(self) -> None:
        if self._answer.done():
            # What is left of it would be taken for the answer to the next request.
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if kept := _HEADERS.get(name.lower()):
            self._headers[kept] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        # Not after a second answer to one request: nothing that comes here can be trusted any more.
        self.reusable = self._parser.should_keep_alive() and not self._answer.done()
        self.used_at = time.monotonic()
        if not self._answer.done():
            self._answer.set_result(Response(self._parser.get_status_code(), bytes(self._body), self._headers))

    def _fail(self, reason: str) -> None:
        self.reusable = False
        if not self._answer.done():
            self._answer.set_exception(ConnectionError(reason))


class Connections:
    """Connections by address (host:port). For one event loop."""

    def __init__(self, tls: ToInstances | None = None) -> None:
        """tls: how to ask by TLS; None for plain HTTP."""
        self._tls = tls
        self._idle: defaultdict[str, deque[ClientConnection]] = defaultdict(deque)

    async def ask(self, address: str, target: str, headers: Mapping[str, str], method: str = "GET") -> Response:
        """Ask for `target` (path and query, encoded). Raises `OSError` when there is no whole answer."""
        fields = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        request = f"{method} {target} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n".encode("latin-1")
        while kept := self._last_used(address):
            try:
                return await self._ask(kept, address, request)
            except ConnectionError:
                # Most likely the other side closed it meanwhile; what is asked here may be asked again.
                if kept.answering:
                    raise
        host, port = Address.parse(address)
        context, name = self._tls.for_host(host) if self._tls else (None, None)
        connect = asyncio.get_running_loop().create_connection
        async with asyncio.timeout(CONNECT_S):
            _, connection = await connect(ClientConnection, host, port, ssl=context, server_hostname=name)
        return await self._ask(connection, address, request)

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _last_used(self, address: str) -> ClientConnection | None:
        """The idle connection that was used last, if it is not too old."""
        connections, oldest = self._idle[address], time.monotonic() - IDLE_S
        while connections:
            connection = connections.pop()
            if connection.used_at > oldest:
                return connection
            connection.close()
        return None

    async def _ask(self, connection: ClientConnection, address: str, request: bytes) -> Response:
        try:
            return await connection.ask(request)
        finally:
            # One whose request was cancelled would give its late answer to the next request.
            if connection.reusable:
                self._idle[address].append(connection)
            else:
                connection.close()
