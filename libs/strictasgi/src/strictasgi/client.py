"""HTTP/1.1 requests without a body over kept connections, for a proxy that spends most of its time with them.

A client library (aiohttp) does the same for twice the CPU time, since it does much more.
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
"""Less than a server keeps an idle connection (`waiting.IDLE_S`), so that few are closed under a request."""

CLOSED = "closed by the other side"

MOST_BYTES = 16 * 1024 * 1024
"""The longest body that is taken."""

A = TypeVar("A")
Tls = Callable[[str], tuple[ssl.SSLContext, str]]
"""For a host: the context of a new connection, and the name that the server's certificate must have."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class ClientConnection(asyncio.Protocol, Generic[A]):
    """One connection, with one request at a time. `answering` says that part of its answer has come."""

    def __init__(self, make: Callable[[int, bytes, Mapping[str, str]], A], kept: Mapping[bytes, str]) -> None:
        """make: makes the answer of a status, a body and headers. kept: the names of its headers by lower case."""
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
        if kept := self._kept.get(name.lower()):
            self._headers[kept] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        # Not after a second answer to one request: nothing that comes here can be trusted any more.
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
        """make: makes an answer, such as `Answer`, of a status, a body and the headers called `kept`.

        tls: None for plain HTTP.
        """
        self._tls = tls
        self._idle: defaultdict[str, deque[ClientConnection[A]]] = defaultdict(deque)
        self._connection = partial(ClientConnection, make, {name.lower().encode(): name for name in kept})

    async def ask(self, address: str, target: str, headers: Mapping[str, str], method: str = "GET") -> A:
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
        """The idle connection that was used last, if it is not too old."""
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
            # One whose request was cancelled would give its late answer to the next request.
            if connection.reusable:
                self._idle[address].append(connection)
            else:
                connection.close()
