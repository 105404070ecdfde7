"""HTTP/1.1 requests without a body over kept connections.

For the same requests, aiohttp, with its many more features, takes twice the CPU time.
"""

import asyncio
import ssl
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar, cast

import httptools

CONNECT_S = 0.5
IDLE_S = 60.0
"""Less than at a server (`waiting.IDLE_S`), so few requests meet a closed connection."""

CLOSED = "closed by the other side"

MOST_BYTES = 16 * 1024 * 1024
"""The longest accepted body."""

A = TypeVar("A")
Tls = Callable[[str], tuple[ssl.SSLContext, str]]
"""For a host: the context of a new connection, and the required name in the server's certificate."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ClientConnection(asyncio.Protocol, Generic[A]):
    """One connection, with one request at a time. `answering`: a part of the answer has arrived."""

    def __init__(self, make: Callable[[int, bytes, Mapping[str, str]], A], kept: Mapping[bytes, str]) -> None:
        """make: makes an answer of a status, a body and headers. kept: names of the headers by lower case."""
        self._make = make
        self._kept = kept
        self.used_at = 0.0
        self.reusable = False
        self.answering = False
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[A] = self._loop.create_future()
        self._answer.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[A]:
        """Send a whole request; the answer, or `ConnectionError` without a whole answer."""
        self.reusable = self.answering = False
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._answer = self._loop.create_future()
        # uvloop raises RuntimeError for a write to a reset connection.
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
            # The data would be taken for the answer to the next request.
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
            # The rest would be taken for the answer to the next request.
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if kept := self._kept.get(name.lower()):
            self._headers[kept] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        # After a second answer to one request, no data of the connection can be trusted.
        self.reusable = self._parser.should_keep_alive() and not self._answer.done()
        self.used_at = time.monotonic()
        if not self._answer.done():
            self._answer.set_result(self._make(self._parser.get_status_code(), bytes(self._body), self._headers))

    def _fail(self, reason: str) -> None:
        self.reusable = False
        if not self._answer.done():
            self._answer.set_exception(ConnectionError(reason))


class ConnectionPool(Generic[A]):
    """Connections by address (host:port). For one event loop."""

    def __init__(
        self,
        make: Callable[[int, bytes, Mapping[str, str]], A],
        kept: Iterable[str] = ("Content-Type",),
        tls: Tls | None = None,
    ) -> None:
        """make: makes an answer, such as `Answer`, of a status, a body and headers. kept: names of the headers.

        tls: None for plain HTTP.
        """
        self._tls = tls
        self._idle: defaultdict[str, deque[ClientConnection[A]]] = defaultdict(deque)
        self._connection = partial(ClientConnection, make, {name.lower().encode(): name for name in kept})

    async def ask(self, address: str, target: str, headers: Mapping[str, str], method: str = "GET") -> A:
        """Request `target` (path and query, encoded). Raises `OSError` without a whole answer."""
        fields = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        request = f"{method} {target} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n".encode("latin-1")
        while kept := self._last_used(address):
            try:
                return await self._ask(kept, address, request)
            except ConnectionError:
                # The other side has probably closed the idle connection: the request may be sent again.
                if kept.answering:
                    raise
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        context, name = self._tls(host) if self._tls else (None, None)
        connect = asyncio.get_running_loop().create_connection
        async with asyncio.timeout(CONNECT_S):
            _, connection = await connect(self._connection, host, int(port), ssl=context, server_hostname=name)
        return await self._ask(connection, address, request)

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _last_used(self, address: str) -> ClientConnection[A] | None:
        """The idle connection with the latest use, unless older than `IDLE_S`."""
        connections, oldest = self._idle[address], time.monotonic() - IDLE_S
        while connections:
            connection = connections.pop()
            if connection.used_at > oldest:
                return connection
            connection.close()
        return None

    async def _ask(self, connection: ClientConnection[A], address: str, request: bytes) -> A:
        try:
            return await connection.ask(request)
        finally:
            # After a cancelled request, a late answer would be taken for the answer to the next request.
            if connection.reusable:
                self._idle[address].append(connection)
            else:
                connection.close()
