"""HTTP/1.1 GETs over kept connections: a gateway spends most of its time with them.

A client library (aiohttp) does the same for twice the CPU time, since it does much more.
"""

import asyncio
import time
from collections import defaultdict, deque
from typing import NamedTuple, cast

import httptools

CONNECT_S = 0.5
IDLE_S = 60.0
"""Less than a server keeps an idle connection (`gunicorn_conf`), so that few are closed under a request."""

MOST_BYTES = 16 * 1024 * 1024
"""The longest body that is taken."""


class Received(NamedTuple):
    """An answer; `headers` by name in lower case."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Lost(ConnectionError):
    """The connection ended before the answer did. `untouched`: nothing of it had come."""

    def __init__(self, reason: str, *, untouched: bool) -> None:
        super().__init__(reason)
        self.untouched = untouched


class Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reusable = True
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Received] | None = None

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: bytes) -> "asyncio.Future[Received]":
        """Send a whole request; the future raises `Lost` when no whole answer comes."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._parser = httptools.HttpResponseParser(self)
        self._touched = False
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            # Nobody has asked: what is this?
            self.close()
            return
        self._touched = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "closed by the other side"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MOST_BYTES:
            self._fail(f"an answer of more than {MOST_BYTES} bytes")
        self._body.append(body)

    def on_message_complete(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            self.reusable = self._parser.should_keep_alive()
            answer.set_result(Received(self._parser.get_status_code(), self._headers, b"".join(self._body)))

    def _fail(self, reason: str) -> None:
        answer, self._answer = self._answer, None
        self.close()
        if answer is not None and not answer.done():
            answer.set_exception(Lost(reason, untouched=not self._touched))


class Connections:
    """Connections by address (host:port). For one event loop."""

    def __init__(self) -> None:
        self._idle: defaultdict[str, deque[Connection]] = defaultdict(deque)

    async def get(self, address: str, target: str, headers: dict[str, str]) -> Received:
        """GET `target` (path and query, encoded). Raises `OSError` when there is no whole answer."""
        fields = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        request = f"GET {target} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n".encode("latin-1")
        kept = self._kept(address)
        if kept is not None:
            try:
                return await self._ask(kept, address, request)
            except Lost as error:
                # Most likely the other side closed it meanwhile; a GET may be sent again.
                if not error.untouched:
                    raise
        return await self._ask(await _connect(address), address, request)

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _kept(self, address: str) -> Connection | None:
        """The connection that was used last, if it is not too old."""
        idle, oldest = self._idle[address], time.monotonic() - IDLE_S
        while idle:
            connection = idle.pop()
            if connection.open and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    async def _ask(self, connection: Connection, address: str, request: bytes) -> Received:
        try:
            received = await connection.ask(request)
        except BaseException:
            # Also when it is cancelled: a late answer must not be taken for the next one's.
            connection.close()
            raise
        if connection.reusable and connection.open:
            connection.idle_since = time.monotonic()
            self._idle[address].append(connection)
        else:
            connection.close()
        return received


async def _connect(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(CONNECT_S):
        _, connection = await asyncio.get_running_loop().create_connection(Connection, host, int(port))
    return connection
