"""One command at a time changes a service, and whoever comes second learns from whom to wait."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
import redis

from devkit.servers.redis import Redis
from streamstate.errors import Declined
from streamstate.releases.command_lock import command_lock
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import lock_key
from streamstate.state.redis_rights import keys, of_operators, rule
from tests.laws.conftest import DATABASE
from tests.waiting import until

_HOLDING = """
import sys
from streamstate.releases.command_lock import command_lock
from streamstate.state.redis_connections import connect
with command_lock(connect(sys.argv[1], 10), sys.argv[2], "restore", ttl_s=2):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_command_is_told_who_holds_the_lock(redis_client: Client, redis_name: Callable[[], str]) -> None:
    service = redis_name()
    with command_lock(redis_client, service, "reset") as lock:
        with (
            pytest.raises(
                Declined, match=rf"`streamstate reset` has changed {service} since .* process {os.getpid()} "
            ),
            command_lock(redis_client, service, "drop"),
        ):
            pytest.fail("two commands have the lock")
        with command_lock(redis_client, f"{service}-2", "drop"):
            lock.require()
    with command_lock(redis_client, service, "drop"):
        pass


def test_the_lock_of_a_killed_command_ends(
    redis_server: Redis, redis_client: Client, redis_name: Callable[[], str]
) -> None:
    service = redis_name()
    url = f"redis://127.0.0.1:{redis_server.port}/{DATABASE}"
    arguments = [sys.executable, "-c", _HOLDING, url, service]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout
        assert command.stdout.readline() == "held\n"
        with pytest.raises(Declined, match=f"process {command.pid} .* its lock ends in [0-2] s"):
            command_lock(redis_client, service, "reset").__enter__()
        command.send_signal(signal.SIGKILL)
    until(lambda: not redis_client.exists(lock_key(service)), "the lock to end")
    with command_lock(redis_client, service, "reset") as lock:
        lock.require()


def test_a_lock_lasts_as_long_as_its_command(redis_client: Client, redis_name: Callable[[], str]) -> None:
    service, left_ms = redis_name(), list[int]()
    with command_lock(redis_client, service, "restore", ttl_s=3) as lock:

        def renewals() -> int:
            left_ms.append(redis_client.pttl(lock_key(service)))
            return sum(after > before for before, after in pairwise(left_ms))

        until(lambda: renewals() == 4, "renewals for longer than the lock lasts by itself")
        lock.require()


def test_a_command_goes_no_further_without_its_lock(redis_client: Client, redis_name: Callable[[], str]) -> None:
    service = redis_name()
    with command_lock(redis_client, service, "restore") as lock:
        redis_client.delete(lock_key(service))
        with (
            command_lock(redis_client, service, "reset"),
            pytest.raises(Declined, match=f"`streamstate restore` lost the lock of {service}"),
        ):
            lock.require()


def test_an_operator_may_take_the_lock(
    redis_server: Redis, redis_client: Client, redis_name: Callable[[], str]
) -> None:
    service = redis_name()
    granted = rule(service, keys(service), of_operators()).split()
    redis_client.execute_command("ACL", "SETUSER", *granted, "on", ">word")  # type: ignore[no-untyped-call]
    with (
        redis.Redis(port=redis_server.port, username=service, password="word", protocol=2) as operator,
        command_lock(operator, service, "reset") as lock,
    ):
        lock.require()
        with pytest.raises(Declined, match="has changed"):
            command_lock(operator, service, "drop").__enter__()
