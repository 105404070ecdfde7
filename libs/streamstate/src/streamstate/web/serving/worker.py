"""Gunicorn's worker for event loops, with connections of our own (see docs/decisions/event-loops.md)."""

from email.utils import formatdate
from typing import Any

from gunicorn.workers import gasgi

from streamstate.access.certificates import Certificates
from streamstate.access.watched_file import LOOK_S
from streamstate.web.server.asgi import Asgi
from streamstate.web.serving.connection import Connection
from streamstate.web.serving.listener import Listener
from streamstate.web.serving.turns import Turns
from streamstate.web.serving.waiting import PATIENCE_S, Waiting

LINGER_S = 1.0
"""How long connections stay open on which nothing was asked when the process was told to end."""

TICK_S = 1.0


class Worker(gasgi.ASGIWorker):  # type: ignore[misc]  # gunicorn has no annotations
    """Ends the connection that has waited longest when there are too many."""

    asgi: Asgi
    alive: bool
    waiting: Waiting
    turns: Turns
    date: bytes

    async def _serve(self) -> None:
        self.waiting, self.turns = Waiting(self.loop.time), Turns(self.loop)
        self._tick()
        if self.app.certificates:
            self._renew(self.app.certificates)
        self.loop.create_server = self._listen
        await super()._serve()

    def _tick(self) -> None:
        self.date = f"Date: {formatdate(usegmt=True)}".encode()
        self.waiting.end_overdue()
        self.loop.call_later(TICK_S, self._tick)

    async def _listen(self, _factory: Any, *, sock: Any, **_: Any) -> Listener:
        """Listen, with TLS at the first address if at all: the other one is for probes, which know no certificates."""
        tls: dict[str, Any] = {}
        if self.app.certificates and sock is self.sockets[0].sock:
            # A handshake that takes its time holds a connection that is not counted yet.
            tls = {"ssl": self.app.certificates.context, "ssl_handshake_timeout": PATIENCE_S}
        return Listener(self.loop, sock, self._connection, **tls)

    def _connection(self) -> Connection:
        return Connection(self, self.loop)

    def opened(self, connection: Connection) -> None:
        """There is one more, for which the one may have to go that has waited longest."""
        self.nr_conns += 1
        self.waiting.hurry(connection)
        if self.nr_conns > self.worker_connections:
            self.waiting.end_oldest()

    def lost(self, connection: Connection) -> None:
        """There is one less."""
        self.nr_conns -= 1
        self.waiting.cancel(connection)

    def _renew(self, certificates: Certificates) -> None:
        certificates.reload()
        self.loop.call_later(LOOK_S, self._renew, certificates)

    def handle_exit_signal(self) -> None:
        """Refuse new connections at once, so that clients go elsewhere; answer what was asked."""
        super().handle_exit_signal()
        for server in self.servers:
            server.close()
        self.asgi.end_streams()
        # What is on its way on a connection that was kept is answered still, and told that it closes.
        self.loop.call_later(LINGER_S, self.waiting.end_all)
