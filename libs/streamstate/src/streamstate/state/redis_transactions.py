"""Atomic commands: MULTI, the commands and EXEC, in one write."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import redis
from hiredis import pack_command
from redis.cluster import RedisCluster
from redis.connection import Connection
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisClusterException,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from streamstate.state.redis_reads import Command

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


def run(client: redis.Redis | RedisCluster, transactions: Sequence[Sequence[Command]]) -> list[list[Any]]:
    """The answers to each transaction, in one round trip, or at a cluster in one for each. Raises the first error.

    Each has at least one command, and all its keys are in the slot of the first command's key. Safe for threads.
    """
    if isinstance(client, RedisCluster):
        return [_run_in_cluster(client, commands) for commands in transactions]
    return _exchange(client, transactions)


def _run_in_cluster(client: RedisCluster, commands: Sequence[Command]) -> list[Any]:
    """Routed by hand, since redis-py takes ASK for the new place of the slot, and leaves MOVED to the caller."""
    key = commands[0][1]
    for _ in range(ATTEMPTS):
        node = client.get_node_from_key(key)  # type: ignore[no-untyped-call]
        try:
            return _exchange(client.get_redis_connection(node), [commands])[0]
        except MovedError as error:
            client.nodes_manager.move_slot(error)
        except BETWEEN_NODES:
            time.sleep(PAUSE_S)
        except NODE_FAILED:
            with suppress(RedisClusterException):
                client.nodes_manager.initialize(last_failed_node_name=node.name)
            raise
    raise still_between_nodes(key)


def _exchange(client: redis.Redis, transactions: Sequence[Sequence[Command]]) -> list[list[Any]]:
    # A pipeline of redis-py takes three times the CPU time, and makes dictionaries of some answers.
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        connection.send_packed_command([b"".join(map(packed, transactions))])  # type: ignore[no-untyped-call]
        outcomes = [_outcome(connection, len(commands)) for commands in transactions]
    except BaseException:
        # Outstanding answers would be read as answers to the next command.
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise
    finally:
        pool.release(connection)
    for error, _ in outcomes:
        if error is not None:
            raise error
    return [answers for _, answers in outcomes]


def _outcome(connection: Connection, commands: int) -> tuple[Exception | None, list[Any]]:
    """The whole reply to a transaction of `commands` commands: the failure or None, and the answers."""
    queued = [_answer(connection) for _ in range(1 + commands)]
    refusal = next((answer for answer in queued if isinstance(answer, Exception)), None)
    answers = _answer(connection)
    return failure(refusal, answers), answers


def _answer(connection: Connection) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error
