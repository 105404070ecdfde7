"""A proxy for faults of a network: lost, late and missing replies."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self

from devkit.child_process import LOCALHOST


class Proxy:
    """Passes bytes on to the port `target`, which may change, and back.

    every: each so many-th reply is dropped with its connection, none when 0; the request has arrived. `dropped` counts
    them.
    delay_s: how late a reply is, in seconds.
    silent: nothing is passed on, and nobody is told.
    """

    def __init__(self, target: int) -> None:
        self.every = 0
        self.dropped = 0
        self.delay_s = 0.0
        self.silent = False
        self.target = target
        self._replies = 0
        self._server = socket.create_server((LOCALHOST, 0))
        self.port = int(self._server.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((LOCALHOST, self.target))
            except OSError:
                near.close()
                continue
            for pair in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, replies: bool) -> None:
        try:
            while data := source.recv(65_536):
                if replies and self._loses():
                    break
                time.sleep(self.delay_s if replies else 0)
                if not self.silent:
                    target.sendall(data)
        except OSError:
            pass
        for side in (source, target):
            # Closing alone would wait for the other thread, which reads from it.
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def _loses(self) -> bool:
        self._replies += 1
        lost = self.every > 0 and self._replies % self.every == 0
        self.dropped += lost
        return lost
