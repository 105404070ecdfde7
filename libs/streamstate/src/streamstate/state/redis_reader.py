"""Reads of the state on an event loop: all reads of a process share one pipelined connection."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from hiredis import pack_command
from redis.asyncio import ConnectionPool, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterError,
    MasterDownError,
    MovedError,
    RedisClusterException,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from streamstate.state.operations import Read
from streamstate.state.redis import CLUSTER, SENTINEL, Seeds, SentinelUrl, options
from streamstate.state.redis_link import NO_LOGIN, Link, Login
from streamstate.state.redis_reads import NO_TRANSACTION, Command, as_script, commands, snapshot, tag, told_key
from streamstate.state.redis_transactions import (
    ATTEMPTS,
    BETWEEN_NODES,
    NODE_FAILED,
    PAUSE_S,
    packed,
    still_between_nodes,
)
from streamstate.state.store import Snapshot


class RedisCommands(Protocol):
    """Sends commands to Redis; raises redis-py's `RedisError` for an error or a missing answer."""

    async def execute_command(self, *command: Any) -> Any: ...

    async def transaction(self, commands: Sequence[Command]) -> list[Any]:
        """The answers to `commands`, run atomically by Redis. All keys are in the slot of the first command's key."""

    async def aclose(self) -> None: ...


class Pipelined:
    """Commands pipelined on one connection; Redis answers in their order. For one event loop.

    timeout: seconds to wait for a connection and for each answer. No command is sent twice.
    sentinel: the Sentinel client of the pools, closed with them.
    preferred: a pool of servers used instead of `pool` while they answer.
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
        self._link: Link | None = None

    # Returns the coroutine: an own coroutine would take time at each read.
    def execute_command(self, *command: Any) -> Coroutine[Any, Any, Any]:
        return self._answer(pack_command(command))

    def transaction(self, commands: Sequence[Command]) -> Coroutine[Any, Any, list[Any]]:
        return self._answer(packed(commands), 1 + len(commands))

    async def aclose(self) -> None:
        if self._link is not None:
            self._link.end(RedisConnectionError("closed"))
        if self._sentinel is not None:
            await self._sentinel.aclose()

    async def _answer(self, message: bytes, queued: int = 0) -> Any:
        link = self._link
        if link is None or link.broken:
            link = await self._connect()
        try:
            return await link.ask(message, queued)
        except (BusyLoadingError, MasterDownError) as error:
            # A replica answers so while it loads, or lacks its primary; another server has an answer.
            if self._preferred is not None:
                link.end(error)
            raise

    async def _connect(self) -> Link:
        async with self._connecting:
            if self._link is None or self._link.broken:
                self._link = await self._open_preferred() or await self._open(self._pool)
            return self._link

    async def _open_preferred(self) -> Link | None:
        """A link to a server of `preferred` that answers, None if there is none."""
        if self._preferred is None:
            return None
        with suppress(RedisError):
            link = await self._open(self._preferred)
            try:
                await link.ask(pack_command(("PING",)))
            except BaseException:
                link.end(RedisConnectionError("it did not answer"))
                raise
            return link
        return None

    async def _open(self, pool: ConnectionPool) -> Link:
        connection = pool.make_connection()  # type: ignore[no-untyped-call]  # it has no annotations
        await connection.connect()
        return Link(connection, self._timeout)


@contextmanager
def _errors_of_redis() -> Iterator[None]:
    """Turns all errors of the cluster's client in the body into a `RedisError`."""
    try:
        yield
    except RedisClusterException as error:
        raise ClusterError(str(error)) from error


class Clustered:
    """Transactions on one connection to each node of a cluster; redis-py's client maps slots to nodes.

    timeout: as of `Pipelined`. seeds: nodes asked for the topology when the known nodes do not answer.
    """

    def __init__(self, client: RedisCluster, timeout: float, seeds: list[tuple[str, int]]) -> None:
        self._client = client
        self._seeds = seeds
        self._timeout = timeout
        self._nodes: dict[str, Pipelined] = {}

    async def execute_command(self, *command: Any) -> Any:
        with _errors_of_redis():
            return await self._client.execute_command(*command)

    async def transaction(self, commands: Sequence[Command]) -> list[Any]:
        key = commands[0][1]
        for _ in range(ATTEMPTS):
            node = await self._node_of(key)
            pipelined = self._nodes.get(node.name) or self._open(node)
            try:
                return await pipelined.transaction(commands)
            except MovedError as error:
                await self._client.nodes_manager.move_slot(error)
            except BETWEEN_NODES:
                await asyncio.sleep(PAUSE_S)
            except NODE_FAILED:
                # The next read asks for a new map of the slots.
                await self._client.aclose()
                raise
        raise still_between_nodes(key)

    async def aclose(self) -> None:
        for pipelined in self._nodes.values():
            await pipelined.aclose()
        await self._client.aclose()

    async def _node_of(self, key: Any) -> ClusterNode:
        with _errors_of_redis():
            # Without a map of the slots, initialize asks a node for the map.
            await self._client.initialize(self._seeds)
            return self._client.nodes_manager.get_node_from_slot(self._client.keyslot(key))

    def _open(self, node: ClusterNode) -> Pipelined:
        pool = ConnectionPool(node.connection_class, **{**node.connection_kwargs, "socket_timeout": None})
        pipelined = self._nodes[node.name] = Pipelined(pool, self._timeout)
        return pipelined


def open_commands(url: str, timeout: float, login: Login = NO_LOGIN, *, replicas: bool = False) -> RedisCommands:
    """A client of the Redis at `url` (as in `connect`); connects on first use.

    replicas: whether to read from a replica known to the Sentinels, and from the primary where none answers.
    """
    waits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    given = {**options(url, login), "retry": Retry(NoBackoff(), 0)}
    if CLUSTER in url:
        # Otherwise every fifth moved key closes the connections of all other reads, which fail then.
        seeds = Seeds.parse(url)
        further = [ClusterNode(*node) for node in seeds.nodes[1:]]
        client = RedisCluster.from_url(seeds.url, startup_nodes=further, reinitialize_steps=0, **waits, **given)
        return Clustered(client, timeout, seeds.nodes)
    # A link has a time limit of its own.
    given |= {"socket_timeout": None, "socket_connect_timeout": timeout}
    if SENTINEL not in url:
        return Pipelined(ConnectionPool.from_url(url, **given), timeout)
    watched = SentinelUrl.parse(url)
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

    def __init__(self, commands: RedisCommands, app: str) -> None:
        self._commands = commands
        self._app = app

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        if len(wanted) == 1:
            [(partition, reads)] = wanted.items()
            return {partition: await self._one(partition, reads)}
        snapshots = await asyncio.gather(*(self._one(partition, reads) for partition, reads in wanted.items()))
        return dict(zip(wanted, snapshots, strict=True))

    async def told(self, addresses: Sequence[str]) -> Mapping[str, str]:
        keys = (told_key(self._app, address) for address in addresses)
        texts = await asyncio.gather(*(self._commands.execute_command("GET", key) for key in keys))
        return {address: text.decode() for address, text in zip(addresses, texts, strict=True) if text}

    async def close(self) -> None:
        await self._commands.aclose()

    async def _one(self, partition: int, reads: Sequence[Read]) -> Snapshot:
        hash_tag = tag(self._app, partition)
        try:
            answers = await self._commands.transaction(commands(hash_tag, reads))
        except NO_TRANSACTION:
            answers = await self._commands.execute_command(*as_script(hash_tag, reads))
        return snapshot(hash_tag, reads, answers)
