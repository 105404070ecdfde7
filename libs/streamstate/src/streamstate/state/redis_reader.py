"""Reads of the state on an event loop: all of a process share one connection, on which none waits for those before."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from hiredis import Reader, pack_command
from redis.asyncio import Connection, ConnectionPool, RedisCluster
from redis.asyncio.connection import DefaultParser
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, MasterDownError, NoScriptError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from streamstate.state.operations import Read
from streamstate.state.redis import CLUSTER, SENTINEL, Watched, options
from streamstate.state.redis_login import NO_LOGIN, Login
from streamstate.state.redis_reads import READ, pack, script_keys, snapshot, tag
from streamstate.state.store import Snapshot


class Commands(Protocol):
    """What sends a command to Redis; raises redis-py's `RedisError` when no answer comes, or an error."""

    async def execute_command(self, *command: Any) -> Any: ...

    async def aclose(self) -> None: ...


class Pipelined:
    """Commands on one connection, sent at once; Redis answers in their order. For one event loop.

    timeout: seconds to wait for a connection and for each answer. No command is sent twice.
    sentinel: what the pools ask for servers, closed with them.
    preferred: of servers that are asked instead of those of `pool` while they answer.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        timeout: float,
        sentinel: Sentinel | None = None,
        preferred: ConnectionPool | None = None,
    ) -> None:
        self._pool = pool
        self._preferred = preferred
        self._timeout = timeout
        self._sentinel = sentinel
        self._connecting = asyncio.Lock()
        self._link: _Link | None = None

    async def execute_command(self, *command: Any) -> Any:
        link = self._link
        if link is None or link.broken:
            link = await self._connect()
        try:
            return await link.ask(command)
        except (BusyLoadingError, MasterDownError) as error:
            # So a replica answers for as long as it loads, or lacks its primary; another server has an answer.
            if self._preferred is not None:
                link.end(error)
            raise

    async def aclose(self) -> None:
        if self._link is not None:
            self._link.end(RedisConnectionError("closed"))
        if self._sentinel is not None:
            await self._sentinel.aclose()

    async def _connect(self) -> "_Link":
        async with self._connecting:
            if self._link is None or self._link.broken:
                self._link = await self._open_preferred() or await self._open(self._pool)
            return self._link

    async def _open_preferred(self) -> "_Link | None":
        """To a server that answers, None where there is none."""
        if self._preferred is None:
            return None
        with suppress(RedisError):
            link = await self._open(self._preferred)
            try:
                await link.ask(("PING",))
            except BaseException:
                link.end(RedisConnectionError("it did not answer"))
                raise
            return link
        return None

    async def _open(self, pool: ConnectionPool) -> "_Link":
        connection = pool.make_connection()  # type: ignore[no-untyped-call]  # it has no annotations
        await connection.connect()
        return _Link(connection, self._timeout)


class _Link(asyncio.Protocol):
    """One connection, from the moment when redis-py has opened it. Its stream reader would take twice the CPU time."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.broken = False
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._answers = Reader(replyError=DefaultParser.parse_error)
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        """Since when, and who."""
        self._timer: asyncio.TimerHandle | None = None
        # It is not the connection's any more, which would warn that nobody has closed it.
        self._writer, connection._writer = cast("asyncio.StreamWriter", connection._writer), None
        self._transport = self._writer.transport
        self._transport.set_protocol(self)

    def ask(self, command: tuple[Any, ...]) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.broken:
            answer.set_exception(RedisConnectionError("the connection has ended"))
            return answer
        self._waiting.append((self._loop.time(), answer))
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout, self._look)
        self._transport.write(pack_command(command))
        return answer

    def data_received(self, data: bytes) -> None:
        self._answers.feed(data)
        while (answer := self._answers.gets()) is not False:
            _, asked = self._waiting.popleft()
            if asked.done():
                continue
            if isinstance(answer, Exception):
                asked.set_exception(answer)
            else:
                asked.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(RedisConnectionError(str(exc or "Redis has closed the connection")))

    def end(self, reason: RedisError) -> None:
        """Close; who still waits for an answer gets `reason`."""
        self.broken = True
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            _, asked = self._waiting.popleft()
            if not asked.done():
                asked.set_exception(reason)

    def _look(self) -> None:
        """End a connection to a server that hangs, or is gone without a word: a new one finds out."""
        self._timer = None
        if self._waiting:
            ends = self._waiting[0][0] + self._timeout
            if ends <= self._loop.time():
                self.end(RedisTimeoutError(f"no answer within {self._timeout} s"))
            else:
                self._timer = self._loop.call_at(ends, self._look)


def open_commands(url: str, timeout: float, login: Login = NO_LOGIN, *, replicas: bool = False) -> Commands:
    """What sends commands to the Redis at `url`, as `connect` names it; connects when it is first used.

    replicas: of what Sentinels watch, a replica, and the primary where none answers.
    """
    waits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    given = {**options(url, login), "retry": Retry(NoBackoff(), 0)}
    if CLUSTER in url:
        # Otherwise every fifth key that has moved closes the connections of all other reads, which fail then.
        return RedisCluster.from_url(url.replace(CLUSTER, "://"), reinitialize_steps=0, **waits, **given)
    # A link has a time limit of its own.
    given |= {"socket_timeout": None, "socket_connect_timeout": timeout}
    if SENTINEL not in url:
        return Pipelined(ConnectionPool.from_url(url, **given), timeout)
    watched = Watched.parse(url)
    of_sentinels = {**waits, **login.sentinel_options(tls=watched.tls)}
    sentinel = Sentinel(watched.sentinels, sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]
    given |= {"db": watched.database, "ssl": watched.tls}
    primary = SentinelConnectionPool(watched.primary, sentinel, **given)  # type: ignore[no-untyped-call]
    if not replicas:
        return Pipelined(primary, timeout, sentinel)
    others = SentinelConnectionPool(watched.primary, sentinel, is_master=False, **given)  # type: ignore[no-untyped-call]
    return Pipelined(primary, timeout, sentinel, others)


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
