"""Reads of the state on an event loop: all reads of a process share one pipelined connection."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

from hiredis import pack_command
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ClusterError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from streamstate.state.operations import Read
from streamstate.state.redis_connections import (
    CLUSTER,
    NO_LOGIN,
    REDIS_PORT,
    SENTINEL,
    Login,
    Seeds,
    SentinelUrl,
    options,
)
from streamstate.state.redis_link import (
    ATTEMPTS,
    BETWEEN_NODES,
    NODE_FAILED,
    PAUSE_S,
    Link,
    packed,
    still_between_nodes,
)
from streamstate.state.redis_reads import (
    NO_TRANSACTION,
    Command,
    as_script,
    decode_snapshot,
    live_key,
    read_commands,
    tag,
    trouble_key,
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

    connect: opens the connection; raises `RedisError`. sentinel: the client that `connect` uses, closed with it.
    """

    def __init__(self, connect: Callable[[], Awaitable[Link]], sentinel: Sentinel | None = None) -> None:
        self._open = connect
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
            # Another server may have an answer.
            link.end(error)
            raise
        except RedisConnectionError:
            # A restart or a failover has closed the connection. All commands here are reads, so repeating is safe.
            return await (await self._connect()).ask(message, queued)

    async def _connect(self) -> Link:
        async with self._connecting:
            if self._link is None or self._link.broken:
                self._link = await self._open()
            return self._link


@contextmanager
def _errors_of_redis() -> Iterator[None]:
    """Turns all errors of the cluster's client in the body into a `RedisError`."""
    try:
        yield
    except RedisClusterException as error:
        raise ClusterError(str(error)) from error


class Clustered:
    """Transactions on one connection to each node of a cluster; redis-py's client maps slots to nodes.

    connect: opens a connection to host and port. seeds: nodes asked for the topology when no known node answers.
    """

    def __init__(
        self, client: RedisCluster, connect: Callable[[tuple[str, int]], Awaitable[Link]], seeds: list[tuple[str, int]]
    ) -> None:
        self._client = client
        self._seeds = seeds
        self._connect = connect
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
        pipelined = self._nodes[node.name] = Pipelined(partial(self._connect, (node.host, int(node.port))))
        return pipelined


def open_commands(url: str, timeout: float, login: Login = NO_LOGIN, *, replicas: bool = False) -> RedisCommands:
    """A client of the Redis at `url` (as in `connect`); connects on first use.

    replicas: whether to read from a replica known to the Sentinels, and from the primary where none answers.
    """
    waits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    connect = partial(Link.open, tls=url.startswith("rediss"), timeout=timeout)
    if CLUSTER in url:
        # Otherwise every fifth moved key closes the connections of all other reads, which fail then.
        seeds = Seeds.parse(url)
        further = [ClusterNode(*node) for node in seeds.nodes[1:]]
        given = {**options(url, login), "retry": Retry(NoBackoff(), 0)}
        client = RedisCluster.from_url(seeds.url, startup_nodes=further, reinitialize_steps=0, **waits, **given)
        return Clustered(client, partial(connect, database=0, login=login), seeds.nodes)
    if SENTINEL not in url:
        at = urlsplit(url)
        return Pipelined(
            partial(connect, (at.hostname or "", at.port or REDIS_PORT), int(at.path.strip("/") or 0), login)
        )
    watched = SentinelUrl.parse(url)
    of_sentinels = {**waits, **login.sentinel_options(tls=watched.tls)}
    sentinel = Sentinel(watched.sentinels, sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]

    async def primary() -> Link:
        return await connect(await sentinel.discover_master(watched.primary), watched.database, login)

    async def replica() -> Link:
        places: Any = await sentinel.discover_slaves(watched.primary)
        for place in random.sample(places, len(places)):
            with suppress(RedisError):
                return await connect(place, watched.database, login, ("PING",))
        return await primary()

    return Pipelined(replica if replicas else primary, sentinel)


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

    async def troubles(self, addresses: Sequence[str]) -> Mapping[str, str]:
        keys = (trouble_key(self._app, address) for address in addresses)
        texts = await asyncio.gather(*(self._commands.execute_command("GET", key) for key in keys))
        return {address: text.decode() for address, text in zip(addresses, texts, strict=True) if text}

    async def releases(self, of: str) -> bytes | None:
        try:
            text: bytes | None = await self._commands.execute_command("GET", live_key(of))
        except NoPermissionError:
            return None
        return text

    async def close(self) -> None:
        await self._commands.aclose()

    async def _one(self, partition: int, reads: Sequence[Read]) -> Snapshot:
        hash_tag = tag(self._app, partition)
        try:
            answers = await self._commands.transaction(read_commands(hash_tag, reads))
        except NO_TRANSACTION:
            answers = await self._commands.execute_command(*as_script(hash_tag, reads))
        return decode_snapshot(hash_tag, reads, answers)
