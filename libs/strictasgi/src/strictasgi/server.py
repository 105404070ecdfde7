"""The server of one process: its listening sockets and its connections."""

import asyncio
import socket
from email.utils import formatdate
from functools import partial

from strictasgi.connection import ServerConnection
from strictasgi.lifespan import Application, Lifespan
from strictasgi.listener import Listener, Tls
from strictasgi.refusals import Refuse, plain
from strictasgi.turns import Turns
from strictasgi.waiting import IDLE_S, Waiting

LINGER_S = 1.0
"""Seconds that a connection without a request stays open at the end of the server."""

TICK_S = 1.0
POLL_S = 0.1


class Server:
    """Serves an ASGI application on the running event loop.

    waiting, turns: of all connections. date: the header field with the time (RFC 9110, section 6.6.1). alive: False
    once the server ends. streams: the connections with answers of unknown length.
    """

    def __init__(
        self, application: Application, connections: int = 1_000, refuse: Refuse = plain, idle_s: float = IDLE_S
    ) -> None:
        """connections: the most open connections; beyond, the connection with the longest wait is closed.

        refuse: makes the answer to a request refused before the application. idle_s: the seconds that an idle
        connection is kept.
        """
        self.application = application
        self.refuse = refuse
        self.lifespan = Lifespan(application)
        self._loop = asyncio.get_running_loop()
        self.waiting, self.turns = Waiting(self._loop.time, idle_s), Turns(self._loop)
        self.alive = True
        self.streams: set[ServerConnection] = set()
        self._most = connections
        self._open = 0
        self._listeners: list[Listener] = []
        self._tick()

    async def start(self) -> None:
        """Start the application. Raises `LifespanFailed`."""
        await self.lifespan.tell("startup")

    def listen(self, sock: socket.socket, tls: Tls = None) -> None:
        """Accept connections of a listening TCP socket; `stop` closes the socket."""
        self._listeners.append(Listener(self._loop, sock, partial(ServerConnection, self, self._loop), tls))

    async def stop(self, within_s: float) -> None:
        """Refuse new connections at once, answer the requests in progress, then end the application.

        Connections still open after `within_s` seconds end with the event loop.
        """
        self.alive = False
        for listener in self._listeners:
            listener.close()
        for connection in self.streams:
            connection.leave()
        # A request on its way over a kept connection gets an answer with `Connection: close`.
        self._loop.call_later(LINGER_S, self.waiting.end_all)
        until = self._loop.time() + within_s
        while (self._open or any(listener.connecting for listener in self._listeners)) and self._loop.time() < until:
            await asyncio.sleep(POLL_S)
        self._ticking.cancel()
        await self.lifespan.tell("shutdown")

    def opened(self, connection: ServerConnection) -> None:
        """Count a new connection; beyond the limit, close the connection with the longest wait."""
        self._open += 1
        self.waiting.hurry(connection)
        if self._open > self._most:
            self.waiting.end_oldest()

    def lost(self, connection: ServerConnection) -> None:
        self._open -= 1
        self.waiting.cancel(connection)
        self.streams.discard(connection)

    def _tick(self) -> None:
        self.date = f"Date: {formatdate(usegmt=True)}".encode()
        self.waiting.end_overdue()
        self._ticking = self._loop.call_later(TICK_S, self._tick)
