"""Snapshots of the primaries of a Redis, by `redis-cli --rdb`."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from redis.cluster import RedisCluster
from redis.sentinel import SentinelConnectionPool

from streamstate.errors import Declined, Misconfigured
from streamstate.state.redis_connections import Client, Login

Address = tuple[str, int]
Layout = Mapping[Address, Any]
"""The slots of each primary; without a cluster, nothing."""


def take(client: Client, login: Login, folder: Path, *, tls: bool) -> list[Path]:
    """Write a snapshot of each primary into `folder`; returns the files.

    Raises `Declined` when a snapshot fails, or the primaries or their slots change meanwhile.
    """
    before = _layout(client)
    files = [_snapshot(address, login, folder, tls=tls) for address in before]
    if _layout(client) != before:
        msg = "the primaries of Redis, or their slots, changed during the backup: run it again"
        raise Declined(msg)
    return files


def _layout(client: Client) -> Layout:
    if isinstance(client, RedisCluster):
        return dict(_of_node(client, node) for node in client.get_primaries())  # type: ignore[no-untyped-call]
    pool = client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        return {pool.get_master_address(): None}  # type: ignore[no-untyped-call]
    return {(pool.connection_kwargs["host"], pool.connection_kwargs["port"]): None}


def _of_node(client: RedisCluster, node: Any) -> tuple[Address, Any]:
    nodes: Mapping[str, Mapping[str, Any]] = client.get_redis_connection(node).execute_command("CLUSTER NODES")  # type: ignore[no-untyped-call]
    [own] = (each for each in nodes.values() if "myself" in each["flags"])
    if own["migrations"]:
        msg = f"slots move between nodes of the Redis Cluster, at {node.name}: back up after the move"
        raise Declined(msg)
    return (node.host, node.port), own["slots"]


def _snapshot(address: Address, login: Login, folder: Path, *, tls: bool) -> Path:
    host, port = address
    file = folder / f"{host.replace(':', '-')}-{port}.rdb"
    arguments, variables = login.of_cli(tls=tls)
    command = ["redis-cli", "-h", host, "-p", str(port), *arguments, "--rdb", str(file)]
    try:
        ran = subprocess.run(
            command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        msg = "there is no redis-cli on the PATH: install Redis (docs/back-up.md)"
        raise Misconfigured(msg) from error
    if ran.returncode:
        why = b" ".join((ran.stdout + ran.stderr).split()).decode(errors="replace")
        msg = f"redis-cli gets no snapshot of {host}:{port} ({why}); docs/back-up.md has the rights, and other ways"
        raise Declined(msg)
    return file
