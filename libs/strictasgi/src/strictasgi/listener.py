"""The listening socket of an event loop."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from strictasgi.waiting import PATIENCE_S

log = logging.getLogger("strictasgi")

MOST_AT_ONCE = 64
"""Connections accepted in a turn of the loop: the rest is left to other worker processes."""

RETRY_S = 1.0
"""Seconds until the next accept after an error, such as too many open files."""

UNREAD_MS = 5_000
"""Milliseconds that a client may leave data unread."""


Tls = Callable[[], ssl.SSLContext] | None
"""Called for the context of each new connection; None for plain HTTP."""


class Listener:
    """Accepts waiting connections, many in a turn of the loop.

    A server of uvloop's `create_server` accepts one connection a turn. A turn of a busy server takes tens of
    milliseconds, so the last of a hundred new clients would wait for seconds.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, serve: Callable[[], Any], tls: Tls
    ) -> None:
        """`serve` makes the protocol of a connection."""
        self._loop = loop
        self._socket = sock
        self._serve = serve
        self._tls = tls
        self.connecting: set[asyncio.Task[None]] = set()
        """Connections in their TLS handshake."""
        self._retry: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # The kernel ends a connection whose client does not read; accepted sockets inherit the option.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        self._listen()

    def close(self) -> None:
        """Accept no more."""
        if self._retry is not None:
            self._retry.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _listen(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted now: %s", error)
                self._loop.remove_reader(self._socket)
                self._retry = self._loop.call_later(RETRY_S, self._listen)
                return
            connecting = self._loop.create_task(self._connect(connection))
            self.connecting.add(connecting)
            connecting.add_done_callback(self.connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        # The connection of a slow handshake is not counted yet.
        options: Any = {"ssl": self._tls(), "ssl_handshake_timeout": PATIENCE_S} if self._tls else {}
        # A failed handshake, or a client that has left.
        with suppress(OSError):
            await self._loop.connect_accepted_socket(self._serve, connection, **options)
