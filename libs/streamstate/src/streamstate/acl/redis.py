"""The rights of a service at Redis: its keys, and the commands that its scripts and clients run."""

import re
from collections.abc import Iterable, Mapping

from streamstate.state import redis_reads
from streamstate.state.operations import Between, Field, Fields, Members, Newest, Read, Since, Top, Value
from streamstate.state.redis import SCRIPTS
from streamstate.state.redis_reads import READ

_RUN = re.compile(r"call(?:_in_pieces)?\('([A-Z]+)'|\{'([A-Z]+)', tag")
"""A command in a script: one that is called, or one that it asks the right to."""

CONNECTION = ("ping", "select")
"""Of every connection."""

CLUSTER = ("cluster|slots", "command")
"""Of the clients of a Redis Cluster besides."""

RUNNING = ("eval", "evalsha")
"""By which a script is run."""

LOADING = ("script|load",)
"""By which the store of a stream makes one known."""

TELLING = ("get", "set")
"""By which the instances of a stream tell how they are, and read it of others."""

AT_ONCE = ("multi", "exec")
"""Around the commands of a read."""

READS: tuple[Read, ...] = (
    Value(""), Fields(""), Field("", ""), Top("", 1), Newest("", 1), Members("", "", "", 1), Since("", 0, 1),
    Between("", 0),
)  # fmt: skip
"""One of each kind."""

OPERATORS: Mapping[str, tuple[str, ...]] = {
    "verify": ("scan", "hgetall", "get", "type", "xrange", "zrange"),
    "skip": ("hget", "hincrby", "hset"),
    "allow": ("hset",),
    "reset": ("del", "hgetall", "hincrby", "scan", "unlink"),
}
"""Of the commands of operators, besides those of the service."""


def commands(scripts: Iterable[str]) -> set[str]:
    """The commands that these scripts run, as an ACL names them."""
    return {(called or asked).lower() for script in scripts for called, asked in _RUN.findall(script)}


def of_reader() -> set[str]:
    """What an API runs, which only reads."""
    asked = {str(name).lower() for name, *_ in redis_reads.commands("", READS)}
    return asked | commands([READ.text]) | {*AT_ONCE, *RUNNING, *CONNECTION, *CLUSTER}


def of_service() -> set[str]:
    """What the stream and the API run."""
    return of_reader() | commands(script.text for script in SCRIPTS) | {*LOADING, *TELLING}


def of_operators() -> set[str]:
    """What the stream, the API and the commands of operators run."""
    return of_service().union(*OPERATORS.values())


def rule(user: str, patterns: Iterable[str], allowed: Iterable[str]) -> str:
    """What gives `user` the keys of `patterns` and these commands, and no others: behind `ACL SETUSER`, or `user`.

    The user's passwords stay as they are; a new one has none, and is off.
    """
    rights = (*(f"~{pattern}" for pattern in patterns), *(f"+{command}" for command in sorted(allowed)))
    return f"{user} resetkeys resetchannels nocommands {' '.join(rights)}"


def keys(app: str) -> str:
    """The pattern of the keys of the app of this name."""
    return f"{{{app}:*"
