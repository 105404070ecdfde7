"""What faults do: lost, late and missing replies, a file of Redis without its end, and another time of day."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Self

import pytest

from devkit.servers.child_process import LOCALHOST
from devkit.servers.redis import Redis


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


# A clock that the Python processes of a test believe in; the JVM decides nothing by the clock.

BELIEVED = Path(__file__).with_name("believed")


class Clock:
    """The machine's clock, shifted by `set` seconds; the monotonic clock is unchanged."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, seconds: int) -> None:
        # Replaced atomically: a process may read the file at any time.
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)

    @contextmanager
    def believed(self) -> Iterator[None]:
        """A `Child` created in this block uses this clock."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLOCK_FILE", str(self._file))
            patch.setenv("PYTHONPATH", str(BELIEVED))
            yield


# What only a crash of a whole machine does to Redis: the end of its file is gone.


def kill_losing_a_second(server: Redis, draw: Random) -> None:
    """kill -9, after which a part of what was written in the last second is lost, as `appendfsync everysec` allows."""
    file = max((server.log.parent / "appendonlydir").glob("*.incr.aof"))
    kept = file.stat().st_size
    time.sleep(1)
    server.kill()
    with file.open("r+b") as log:
        log.truncate(draw.randint(kept, file.stat().st_size))
