"""Child processes: each has a log file and a session of its own."""

import errno
import os
import secrets
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Self

import psutil

from devkit import DevkitError

LOCALHOST = "127.0.0.1"

SERVER_PORTS = range(10_000, 32_768)
"""Ports that Linux never assigns to an outgoing connection."""

_PORTS = cycle(secrets.SystemRandom().sample(SERVER_PORTS, len(SERVER_PORTS)))

_MORTAL = ("setpriv", "--pdeathsig", "KILL")
"""Begins the command of a program that Linux kills with its parent, however the parent ends."""

_STARTER = ThreadPoolExecutor(1, "children")
"""Starts all programs: to Linux, the parent is the starting thread, which must live as long as the process."""


class Child:
    """A program started and stopped by the current process, and killed with it. Not thread-safe.

    Ctrl-C in the terminal does not reach the program, because of its own session.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        """`name` is for errors; the output is appended to `log`; `env` extends the current environment."""
        self.name = name
        self.log = log
        self.argv = argv
        self.env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._logged = 0

    @property
    def pid(self) -> int:
        """Id of the process and of its process group. Raises `DevkitError` before the start."""
        if self._process is None:
            msg = f"{self.name} is not started; call start() first"
            raise DevkitError(msg)
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start without waiting for readiness. Raises `DevkitError` if the program runs or cannot start."""
        if self.alive:
            msg = f"{self.name} runs already, as process {self.pid}; stop it first"
            raise DevkitError(msg)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._logged = log.tell()

            def started() -> subprocess.Popen[bytes]:
                return subprocess.Popen(
                    (*_MORTAL, *self.argv),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self.env,
                    start_new_session=True,
                )

            try:
                self._process = _STARTER.submit(started).result()
            except OSError as error:
                msg = f"{self.name} cannot be started ({error}); install setpriv (Debian: util-linux)"
                raise DevkitError(msg) from error

    def __enter__(self) -> Self:
        """Start the program until the end of the block."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        """Call `ready` until true, for at most `timeout` seconds.

        After the timeout or an exit of the child, kills the child and raises `DevkitError` with the end of the log.
        """
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.alive:
                self._fail("ended before it was ready")
            if time.monotonic() > deadline:
                self._fail(f"is not ready after {timeout:g} s")
            time.sleep(0.05)

    def stop(self, timeout: float = 15.0) -> int | None:
        """Send SIGTERM, wait up to `timeout` seconds, then kill the rest of its process group.

        Returns the exit status, None after a kill.
        """
        status = None
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                status = self._process.wait(timeout)
            self.kill()
        return status

    def kill(self) -> None:
        """Send SIGKILL to its process group."""
        self.signal_kill()
        if self._process is not None:
            self._process.wait()
            self._process = None

    def signal_kill(self) -> None:
        """As `kill`, without waiting, also while another thread waits in `stop`."""
        if (process := self._process) is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def tail(self, lines: int = 20) -> str:
        """The last `lines` lines of its log since its last start."""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._logged)
            return "".join(deque(log, lines)).rstrip()

    def _fail(self, failure: str) -> None:
        self.kill()
        msg = f"{self.name} {failure}; the end of {self.log}:\n{self.tail() or '(nothing was logged)'}"
        raise DevkitError(msg)


def free_port() -> int:
    """A free TCP port of 127.0.0.1, outside the range of outgoing connections; each call gives another."""
    while True:
        port = next(_PORTS)
        with suppress(OSError), socket.create_server((LOCALHOST, port)):
            return port


def require_free_port(name: str, port: int, variable: str) -> None:
    """Raises `DevkitError` when the port of the server `name`, given by the setting `variable`, is in use."""
    try:
        socket.create_server((LOCALHOST, port)).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        holder, advice = _holder(port)
        msg = f"{name}: port {port} ({variable}) is taken{holder}; {advice}set {variable} to another"
        raise DevkitError(msg) from error


def _holder(port: int) -> tuple[str, str]:
    """The process that listens at `port`, in words, and how to end it; the process of another user stays unknown."""
    for pid, _, listening in listeners():
        if pid and listening == port:
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                ours = Path(process.cwd()) == Path.cwd()
                origin = ", started from this folder, perhaps left by a killed demo" if ours else ""
                return f" by process {pid} ({process.name()}{origin})", f"end it by `kill {pid}`, or "
    return "", "stop what listens there or "


def listeners() -> list[tuple[int | None, str, int]]:
    """Process id (None: of another user), address and port of each listening TCP socket of this machine."""
    sockets = (each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN)
    return [(each.pid, each.laddr.ip, each.laddr.port) for each in sockets if each.laddr]
