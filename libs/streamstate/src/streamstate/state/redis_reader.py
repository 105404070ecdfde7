"""Reads of the state on an event loop: all of a process share one connection, on which none waits for those before."""

import asyncio
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from redis.asyncio import Connection, ConnectionPool, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from streamstate.state.operations import Read
from streamstate.state.redis import CLUSTER
from streamstate.state.redis_reads import READ, pack, script_keys, snapshot, tag
from streamstate.state.store import Snapshot


class Commands(Protocol):
    """What sends a command to Redis; raises redis-py's `RedisError` when no answer comes, or an error."""

    async def execute_command(self, *command: Any) -> Any: ...

    async def aclose(self) -> None: ...


class Pipelined:
    """Commands on one connection, sent at once; Redis answers in their order. For one event loop.

    timeout: seconds to wait for a connection and for each answer. No command is sent twice.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._pool = ConnectionPool.from_url(
            url, protocol=2, socket_timeout=None, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0)
        )
        self._timeout = timeout
        self._connecting = asyncio.Lock()
        self._link: _Link | None = None

    async def execute_command(self, *command: Any) -> Any:
        link = self._link
        if link is None or link.broken:
            link = await self._connect()
        try:
            async with asyncio.timeout(self._timeout):
                return await link.ask(command)
        except TimeoutError as error:
            # A server that hangs, or is gone without a word: a new connection finds out.
            await link.close(RedisTimeoutError("another command had no answer in time"))
            msg = f"no answer within {self._timeout} s"
            raise RedisTimeoutError(msg) from error

    async def aclose(self) -> None:
        if self._link is not None:
            await self._link.close(RedisConnectionError("closed"))

    async def _connect(self) -> "_Link":
        async with self._connecting:
            if self._link is None or self._link.broken:
                connection = self._pool.make_connection()  # type: ignore[no-untyped-call]  # it has no annotations
                await connection.connect()
                self._link = _Link(connection)
            return self._link


class _Link:
    """One connection, from its making to its end."""

    def __init__(self, connection: Connection) -> None:
        self.broken = False
        self._connection = connection
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._reading = asyncio.create_task(self._read())

    async def ask(self, command: Sequence[Any]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        try:
            await self._connection.send_packed_command(self._connection.pack_command(*command), check_health=False)
        except (RedisError, OSError, RuntimeError) as error:
            # RuntimeError is uvloop's, when the connection has ended and `_read` has not learned of it yet.
            await self.close(RedisConnectionError(str(error)))
        return await answer

    async def close(self, reason: RedisError) -> None:
        """Who still waits for an answer gets `reason`."""
        if not self.broken:
            self.broken = True
            self._reading.cancel()
            await self._end(reason)

    async def _read(self) -> None:
        """Give each answer to who has waited longest."""
        try:
            while True:
                try:
                    response = await self._connection.read_response(timeout=math.inf)
                except ResponseError as error:
                    response = error
                answer = self._waiting.popleft()
                if answer.done():
                    continue
                if isinstance(response, Exception):
                    answer.set_exception(response)
                else:
                    answer.set_result(response)
        except (RedisError, OSError) as error:
            self.broken = True
            await self._end(RedisConnectionError(str(error)))

    async def _end(self, reason: RedisError) -> None:
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(reason)
        await self._connection.disconnect(nowait=True)


def open_commands(url: str, timeout: float) -> Commands:
    """What sends commands to the Redis or (`redis+cluster://`) the cluster at `url`; connects when it is first used."""
    if CLUSTER not in url:
        return Pipelined(url, timeout)
    return RedisCluster.from_url(
        url.replace(CLUSTER, "://"),
        protocol=2,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        # Otherwise every fifth key that has moved closes the connections of all other reads, which fail then.
        reinitialize_steps=0,
    )


class RedisReader:
    """The `AsyncReads` of one app."""

    def __init__(self, commands: Commands, app: str) -> None:
        self._commands = commands
        self._app = app

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        if len(wanted) == 1:
            [(partition, reads)] = wanted.items()
            return {partition: await self._one(partition, reads)}
        snapshots = await asyncio.gather(*(self._one(partition, reads) for partition, reads in wanted.items()))
        return dict(zip(wanted, snapshots, strict=True))

    async def close(self) -> None:
        await self._commands.aclose()

    async def _one(self, partition: int, reads: Sequence[Read]) -> Snapshot:
        arguments = *script_keys(self._app, partition), pack(reads)
        try:
            answer = await self._commands.execute_command("EVALSHA", READ.sha, *arguments)
        except NoScriptError:
            answer = await self._commands.execute_command("EVAL", READ.text, *arguments)
        return snapshot(tag(self._app, partition), reads, answer)
