"""Snapshots loaded into Redis servers of their own, each at a socket in a scratch folder."""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import redis
from redis.exceptions import BusyLoadingError
from redis.exceptions import ConnectionError as RedisConnectionError

from streamstate.errors import Declined, Misconfigured
from streamstate.state.redis_reads import tag

SavedPartitions = Mapping[int, redis.Redis]
"""The clients of the servers with saved partitions."""

_PAUSE_S = 0.05
_SCANNED = 1_000
_PARTITION = re.compile(r"\{(.+):([0-9]+)\}", re.DOTALL)
_PROGRAM = ("setpriv", "--pdeathsig", "KILL", "redis-server")
"""The server ends with this process, however it ends."""

_OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "save": "",
    "appendonly": "no",
    "databases": "1024",
    "loglevel": "warning",
}


@contextmanager
def loaded(files: Sequence[Path]) -> Iterator[Mapping[str, SavedPartitions]]:
    """The saved partitions of each app in `files`, for the body. The files stay unchanged.

    Raises `Declined` for an unreadable file or a partition in two files, `Misconfigured` without redis-server.
    """
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="streamstate-backup-")))
        servers = [
            opened.enter_context(_serving(file.absolute(), folder / str(number))) for number, file in enumerate(files)
        ]
        found: dict[str, dict[int, redis.Redis]] = {}
        for client in (opened.enter_context(each) for server in servers for each in _databases(server)):
            for app, partition in _partitions(client):
                if partition in found.setdefault(app, {}):
                    msg = f"{tag(app, partition)} is saved twice; restore a backup of one Redis, and of one database"
                    raise Declined(msg)
                found[app][partition] = client
        yield {app: dict(sorted(found[app].items())) for app in sorted(found)}


@contextmanager
def _serving(file: Path, socket: Path) -> Iterator[Path]:
    given = {**_OPTIONS, "unixsocket": str(socket), "dir": str(file.parent), "dbfilename": file.name}
    argv = [*_PROGRAM, *(part for name, value in given.items() for part in (f"--{name}", value))]
    log = socket.with_suffix(".log")
    with ExitStack() as opened:
        output = opened.enter_context(log.open("wb"))
        try:
            process = opened.enter_context(
                subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            )
        except FileNotFoundError as error:
            msg = f"there is no {_PROGRAM[0]} on the PATH: install util-linux (docs/back-up.md)"
            raise Misconfigured(msg) from error
        opened.callback(process.kill)
        with redis.Redis(unix_socket_path=str(socket)) as client:
            while not _answers(client):
                if process.poll() is not None:
                    raise _not_loaded(file, log.read_text(errors="replace"))
                time.sleep(_PAUSE_S)
        yield socket


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except (BusyLoadingError, RedisConnectionError):
        return False


def _not_loaded(file: Path, log: str) -> Exception:
    if _PROGRAM[0] in log:
        return Misconfigured("there is no redis-server on the PATH: install Redis (docs/back-up.md)")
    why = "; ".join(line.partition("# ")[2] or line for line in log.strip().splitlines()[-2:])
    return Declined(
        f"redis-server cannot load {file} ({why}); take a redis-server at least as new as the saved Redis, or another "
        "backup"
    )


def _databases(socket: Path) -> Iterator[redis.Redis]:
    """A client of each database with keys."""
    with redis.Redis(unix_socket_path=str(socket)) as client:
        numbers = [int(name.removeprefix("db")) for name in client.info("keyspace")]
    for number in numbers:
        yield redis.Redis(unix_socket_path=str(socket), db=number, protocol=2)


def _partitions(client: redis.Redis) -> Iterator[tuple[str, int]]:
    for key in set(client.scan_iter(match="{*:*}", count=_SCANNED, _type="hash")):
        if (match := _PARTITION.fullmatch(key.decode(errors="replace"))) and client.hexists(key, "epoch"):
            yield match[1], int(match[2])
