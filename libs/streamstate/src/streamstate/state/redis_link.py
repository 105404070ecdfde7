"""One pipelined connection to Redis on an event loop: a command does not wait for the answers to earlier commands."""

import asyncio
from collections import deque
from typing import Any, cast

from hiredis import Reader
from redis.asyncio import Connection
from redis.asyncio.connection import DefaultParser
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from streamstate.state.redis_transactions import failure


class Link(asyncio.Protocol):
    """One connection, taken over from redis-py once open. redis-py's stream reader would take twice the CPU time."""

    def __init__(self, connection: Connection, timeout: float) -> None:
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
        # Without its writer, the connection does not warn that it was never closed.
        self._writer, connection._writer = cast("asyncio.StreamWriter", connection._writer), None
        self._transport = self._writer.transport
        self._transport.set_protocol(self)

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
