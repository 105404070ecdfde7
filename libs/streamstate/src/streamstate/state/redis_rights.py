"""The rights of a service at Redis: its keys, and the commands of its scripts and clients."""

import re
from collections.abc import Iterable, Mapping

from streamstate.state import redis_reads
from streamstate.state.operations import (
    Between,
    Field,
    Fields,
    HistoryDays,
    Members,
    Newest,
    Read,
    Since,
    Size,
    Top,
    Value,
)
from streamstate.state.redis import SCRIPTS
from streamstate.state.redis_reads import READ

_RUN = re.compile(r"call(?:_in_pieces)?\('([A-Z]+)'|\{'([A-Z]+)', tag")
"""A command in a script: called directly, or named where a right is declared."""

CONNECTION = ("ping", "select")
"""Of every connection."""

CLUSTER = ("cluster|slots", "command")
"""Of the clients of a Redis Cluster besides."""

RUNNING = ("eval", "evalsha")
"""Commands that run a script."""

LOADING = ("script|load",)
"""Commands that load the scripts of a stream's store."""

REPORTING = ("get", "sadd", "set")
"""Commands by which the instances of a stream store their status and their deployment, and read other instances'."""

AT_ONCE = ("multi", "exec")
"""Around the commands of a read."""

READS: tuple[Read, ...] = (
    Value(""), Fields(""), Field("", ""), Top("", 1), Newest("", 1), Members("", "", "", 1), Since("", 0, 1),
    Between("", 0), Size(""), Size("", within=(0, 0)), HistoryDays("", ""),
)  # fmt: skip
"""One read of each kind."""

OPERATORS: Mapping[str, tuple[str, ...]] = {
    "lock": ("del", "get", "pexpire", "pttl", "set"),
    "status": ("smembers",),
    "verify": ("scan", "hgetall", "get", "type", "xrange", "zrange"),
    "skip": ("hget", "hincrby", "hset"),
    "allow": ("hset",),
    "throttle": ("hdel", "hset"),
    "stage": ("dbsize", "info", "memory|usage", "randomkey"),
    "reset": ("hgetall", "hincrby", "hmget", "scan", "unlink"),
    "drop": ("srem", "unlink"),
    "restore": ("hget", "hincrby", "hmget", "restore", "scan", "unlink"),
}
"""Additional commands of Redis, by the operator's command."""


BACKUP = ("cluster|nodes", "hset", "psync", "replconf", "sync")
"""Commands of `streamstate backup`, which reads all keys."""


def commands(scripts: Iterable[str]) -> set[str]:
    """The commands in `scripts`, by the names of an ACL."""
    return {(called or asked).lower() for script in scripts for called, asked in _RUN.findall(script)}


def of_reader() -> set[str]:
    """The commands of an API, which only reads."""
    asked = {str(name).lower() for name, *_ in redis_reads.read_commands("", READS)}
    return asked | commands([READ.text]) | {*AT_ONCE, *RUNNING, *CONNECTION, *CLUSTER}


def of_service() -> set[str]:
    """The commands of the stream and the API."""
    return of_reader() | commands(script.text for script in SCRIPTS) | {*LOADING, *REPORTING}


def of_operators() -> set[str]:
    """The commands of the stream, the API and the operators' commands."""
    return of_service().union(*OPERATORS.values())


def rule(user: str, patterns: Iterable[str], allowed: Iterable[str]) -> str:
    """The rule that gives `user` the keys of `patterns` and exactly these commands, behind `ACL SETUSER` or `user`.

    The user's passwords stay unchanged; a new user has none, and is off.
    """
    rights = (*(f"~{pattern}" for pattern in patterns), *(f"+{command}" for command in sorted(allowed)))
    return f"{user} resetkeys resetchannels nocommands {' '.join(rights)}"


def keys(app: str) -> tuple[str, ...]:
    """The patterns of the keys of the app of this name, the releases of which it is the first included."""
    return f"{{{app}:*", redis_reads.DEPLOYMENTS
