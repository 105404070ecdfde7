"""Transactions of Redis (MULTI, commands and EXEC in one write), and a pipelined connection on an event loop."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

from hiredis import Reader, pack_command
from redis.asyncio.connection import DefaultParser
from redis.exceptions import AskError, ClusterDownError, RedisError, TryAgainError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from streamstate.state.redis_connections import Login
from streamstate.state.redis_reads import Command

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""As redis-py's: an idle connection to a vanished server ends within a minute."""


ATTEMPTS, PAUSE_S = 9, 0.05
"""How often a partition is asked for while its slot is on the way to another node of a cluster, and how far apart."""

BETWEEN_NODES = (AskError, TryAgainError)
"""Errors of a node with a part of the partition's keys only. ASK is not followed: the other node may lack keys too."""

NODE_FAILED = (RedisConnectionError, RedisTimeoutError, ClusterDownError)
"""Errors after which another node may have the slot."""

packed_alone: Callable[[Command], bytes] = pack_command  # type: ignore[assignment]  # its stub takes tuples of one
_BEGIN, _END = pack_command(("MULTI",)), pack_command(("EXEC",))


def packed(commands: Sequence[Command]) -> bytes:
    """One write. Redis answers MULTI and each command as it is queued, and then EXEC with all answers."""
    return b"".join([_BEGIN, *map(packed_alone, commands), _END])


def failure(refusal: Exception | None, answer: Any) -> Exception | None:
    """Why a transaction has no answers: `refusal`, the first error while queueing, or an error in EXEC's answer."""
    if refusal is not None or isinstance(answer, Exception):
        # After a refusal, EXEC says only that the transaction was discarded.
        return refusal or answer
    for each in answer:
        if isinstance(each, Exception):
            return each
    return None


def still_between_nodes(key: object) -> TryAgainError:
    return TryAgainError(f"the slot of {key} is between two nodes")


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
