"""The memory of a state in Redis, estimated from a sample of keys, and the memory that is left."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import redis
from redis.cluster import RedisCluster

from streamstate.state.redis_connections import Client

SAMPLE = 2_000
"""Keys drawn from each server."""

SHARE = 0.9
"""The share of `maxmemory` up to which a further state may fill Redis."""


class Footprint(NamedTuple):
    """In bytes: the memory of a state, and the memory left for others, infinite without `maxmemory`."""

    state: int
    left: float

    @property
    def fits(self) -> bool:
        """Whether another state of this size has room."""
        return self.state <= self.left


def measured(client: Client, app: str) -> Footprint:
    """The memory of the state of `app`. The estimate is the mean of the sampled keys times the number of keys."""
    servers = [_of_server(server, f"{{{app}:".encode()) for server in _servers(client)]
    return Footprint(sum(each.state for each in servers), sum(each.left for each in servers))


def _of_server(server: redis.Redis, prefix: bytes) -> Footprint:
    memory: Any = server.info("memory")
    most = memory["maxmemory"]
    left = SHARE * most - memory["used_memory"] if most else math.inf
    draw = server.pipeline(transaction=False)
    for _ in range(SAMPLE):
        draw.randomkey()
    weigh = server.pipeline(transaction=False)
    for key in draw.execute():
        if key and key.startswith(prefix):
            weigh.memory_usage(key)
    sampled = sum(size or 0 for size in weigh.execute())
    keys: Any = server.dbsize()
    return Footprint(round(sampled / SAMPLE * keys), left)


def _servers(client: Client) -> Iterable[redis.Redis]:
    if isinstance(client, RedisCluster):
        return [client.get_redis_connection(node) for node in client.get_primaries()]  # type: ignore[no-untyped-call]
    return [client]
