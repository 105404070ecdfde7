"""The lock of a service: one command at a time changes its releases or its state."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import msgspec
from redis.exceptions import LockError, RedisError
from redis.lock import Lock

from streamstate.errors import Declined
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import lock_key

LOCK_S = 15.0
"""Seconds that a lock outlasts the last renewal by its command."""


class Holder(msgspec.Struct, frozen=True):
    """The command that holds a lock, its process, and the time of its start."""

    command: str
    host: str
    pid: int
    since: datetime

    @classmethod
    def of_process(cls, command: str) -> "Holder":
        return cls(command, socket.gethostname(), os.getpid(), datetime.now(UTC))


class CommandLock:
    """A lock that this process holds."""

    def __init__(self, lock: Lock, holder: Holder, service: str) -> None:
        self._lock = lock
        self._holder = holder
        self._service = service

    def require(self) -> None:
        """Call before each step that destroys. Raises `Declined` for a lost lock, as after a failover of Redis."""
        try:
            self._lock.reacquire()
        except LockError as error:
            msg = (
                f"`streamstate {self._holder.command}` lost the lock of {self._service}, which it took at "
                f"{_time(self._holder.since)}, and goes no further: see what is done by `streamstate status "
                f"{self._service}`, and run it again"
            )
            raise Declined(msg) from error

    def renew_until(self, end: threading.Event, pause_s: float) -> None:
        """Renew the lock every `pause_s` seconds. Whether it is lost, the command itself asks."""
        while not end.wait(pause_s):
            with suppress(LockError, RedisError):
                self._lock.reacquire()


@contextmanager
def command_lock(client: Client, service: str, command: str, ttl_s: float = LOCK_S) -> Iterator[CommandLock]:
    """The lock of `service` for the body, for a command such as `reset`.

    The lock ends with the body, or `ttl_s` seconds after the end of a killed command, by the clock of Redis. Raises
    `Declined` while another command has it.
    """
    holder = Holder.of_process(command)
    lock = Lock(client, lock_key(service), timeout=ttl_s, thread_local=False)
    if not lock.acquire(blocking=False, token=msgspec.json.encode(holder).decode()):
        raise _held(client, service)
    held, end = CommandLock(lock, holder, service), threading.Event()
    renewal = threading.Thread(target=held.renew_until, args=(end, ttl_s / 3), name="command-lock", daemon=True)
    renewal.start()
    try:
        yield held
    finally:
        end.set()
        renewal.join()
        with suppress(LockError, RedisError):
            lock.release()


def _held(client: Client, service: str) -> Declined:
    key = lock_key(service)
    token, left_ms = client.get(key), client.pttl(key)
    if token is None:
        return Declined(f"another command that changes {service} ended just now: see its result, and run this again")
    holder = msgspec.json.decode(token, type=Holder)
    return Declined(
        f"`streamstate {holder.command}` has changed {service} since {_time(holder.since)}, as process {holder.pid} on "
        f"{holder.host}: wait for its end, or end it; if it was killed, its lock ends in {left_ms / 1_000:.0f} s"
    )


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
