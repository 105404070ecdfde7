"""Authentication to Redis, and one pipelined connection on an event loop: a command waits for no earlier answer."""

import asyncio
import socket
import ssl
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

from hiredis import Reader
from redis.asyncio.connection import DefaultParser
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from streamstate.state.redis_reads import Command
from streamstate.state.redis_transactions import failure, packed_alone

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""As redis-py's: an idle connection to a vanished server ends within a minute."""


@dataclass(frozen=True)
class Login:
    """Files, read anew by each new connection.

    `password` is the password of `username`, by default of the default user.
    """

    username: str = ""
    password: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    sentinel_password: Path | None = None

    def options(self, *, tls: bool) -> dict[str, Any]:
        """redis-py's arguments of connections to Redis."""
        return self._options(self.username, self.password, tls=tls)

    def sentinel_options(self, *, tls: bool) -> dict[str, Any]:
        """The same for the Sentinels, without a user."""
        return {"ssl": tls, **self._options("", self.sentinel_password, tls=tls)}

    def of_cli(self, *, tls: bool) -> tuple[list[str], dict[str, str]]:
        """redis-cli's arguments, and the environment variables that hide the password. Raises OSError."""
        files = {"--cacert": self.ca, "--cert": self.certificate, "--key": self.key}
        arguments = (
            ["--tls", *(part for name, path in files.items() if path for part in (name, str(path)))] if tls else []
        )
        if not self.password:
            return arguments, {}
        [*_, password] = _File(self.username, self.password).get_credentials()
        return [*arguments, *(["--user", self.username] if self.username else [])], {"REDISCLI_AUTH": password}

    def commands(self) -> list[Command]:
        """The commands that log in. Raises OSError."""
        return [("AUTH", *_File(self.username, self.password).get_credentials())] if self.password else []

    def context(self) -> ssl.SSLContext:
        """TLS by the same files as redis-py's connections. Raises OSError."""
        made = ssl.create_default_context()
        if self.ca:
            made.load_verify_locations(self.ca)
        if self.certificate:
            made.load_cert_chain(self.certificate, self.key)
        return made

    def _options(self, username: str, password: Path | None, *, tls: bool) -> dict[str, Any]:
        files = {"ssl_ca_certs": self.ca, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        options: dict[str, Any] = {name: str(path) for name, path in files.items() if path} if tls else {}
        if password:
            # Without a login, the name of the client stays: unless it has read an answer, redis-py mistakes TLS 1.3's
            # unsolicited session tickets for an unexpected answer. A user would need a further right for it.
            options |= {"credential_provider": _File(username, password), "driver_info": None}
        return options


NO_LOGIN = Login()
"""No proof, as on a laptop."""


class _File(CredentialProvider):
    def __init__(self, username: str, password: Path) -> None:
        self._username = username
        self._password = password

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = self._password.read_text().strip("\r\n")
        return (self._username, password) if self._username else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()


class Link(asyncio.Protocol):
    """One connection. redis-py's would take more than twice the CPU time, as it awaits each answer apart."""

    def __init__(self, timeout: float) -> None:
        """timeout: seconds to wait for each answer."""
        self.broken = False
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._answers = Reader(replyError=DefaultParser.parse_error)
        self._waiting: deque[tuple[float, int, asyncio.Future[Any]]] = deque()
        """Pending answers: start time, number of QUEUED replies before the answer, and its future."""
        self._unsent: list[bytes] = []
        self._queued = 0
        self._refusal: Exception | None = None
        """Oldest pending transaction: QUEUED replies received, and the first error among them."""
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls, place: tuple[str, int], database: int, login: Login, *first: Command, tls: bool, timeout: float
    ) -> Self:
        """Connect to the host and port `place`, log in, and send the commands `first`. Raises `RedisError`.

        timeout: seconds to wait for the connection and for each answer.
        """
        try:
            logging_in, context = login.commands(), login.context() if tls else None
            async with asyncio.timeout(timeout):
                loop = asyncio.get_running_loop()
                _, link = await loop.create_connection(lambda: cls(timeout), *place, ssl=context)
        except TimeoutError as error:
            raise RedisTimeoutError(f"{place[0]}:{place[1]} takes no connection within {timeout} s") from error
        except OSError as error:
            raise RedisConnectionError(f"{place[0]}:{place[1]} takes no connection: {error}") from error
        try:
            for command in (*logging_in, *([("SELECT", database)] if database else []), *first):
                await link.ask(packed_alone(command))
        except BaseException:
            link.end(RedisConnectionError("the server refused the connection"))
            raise
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        for option in _KEEPALIVE:
            transport.get_extra_info("socket").setsockopt(*option)

    def ask(self, message: bytes, queued: int = 0) -> asyncio.Future[Any]:
        """The answer to a packed command, or the answers to a transaction, which follow `queued` other replies."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.broken:
            answer.set_exception(RedisConnectionError("the connection has ended"))
            return answer
        self._waiting.append((self._loop.time(), queued, answer))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout, self._look)
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(message)
        return answer

    # The commands of one turn of the loop share one system call, and wake Redis once.
    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self.broken:
            self._transport.write(b"".join(unsent))

    def data_received(self, data: bytes) -> None:
        self._answers.feed(data)
        while (answer := self._answers.gets()) is not False:
            _, queued, asked = self._waiting[0]
            if self._queued < queued:
                self._queued += 1
                if self._refusal is None and isinstance(answer, Exception):
                    self._refusal = answer
                continue
            self._waiting.popleft()
            error = failure(self._refusal, answer) if queued else answer if isinstance(answer, Exception) else None
            self._queued, self._refusal = 0, None
            if asked.done():
                continue
            if error is None:
                asked.set_result(answer)
            else:
                asked.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(RedisConnectionError(str(exc or "Redis has closed the connection")))

    def end(self, reason: RedisError) -> None:
        """Close; pending commands fail with `reason`."""
        self.broken = True
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            _, _, asked = self._waiting.popleft()
            if not asked.done():
                asked.set_exception(reason)

    def _look(self) -> None:
        """Close a connection whose server hangs or vanished: a new connection finds out."""
        self._timer = None
        if self._waiting:
            ends = self._waiting[0][0] + self._timeout
            if ends <= self._loop.time():
                self.end(RedisTimeoutError(f"no answer within {self._timeout} s"))
            else:
                self._timer = self._loop.call_at(ends, self._look)
