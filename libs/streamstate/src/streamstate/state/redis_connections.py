"""Connections to Redis: login, TLS, and the addresses in a URL."""

import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.credentials import CredentialProvider
from redis.retry import Retry
from redis.sentinel import Sentinel

from streamstate.state.redis_reads import Command

Client = redis.Redis | RedisCluster

CLUSTER, SENTINEL = "+cluster://", "+sentinel://"
SENTINEL_PORT, REDIS_PORT = 26379, 6379


@dataclass(frozen=True)
class Login:
    """Files, read anew by each new connection.

    `password` is the password of `username`, by default of the default user.
    """

    username: str = ""
    password: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    sentinel_password: Path | None = None

    def options(self, *, tls: bool) -> dict[str, Any]:
        """redis-py's arguments of connections to Redis."""
        return self._options(self.username, self.password, tls=tls)

    def sentinel_options(self, *, tls: bool) -> dict[str, Any]:
        """The same for the Sentinels, without a user."""
        return {"ssl": tls, **self._options("", self.sentinel_password, tls=tls)}

    def of_cli(self, *, tls: bool) -> tuple[list[str], dict[str, str]]:
        """redis-cli's arguments, and the environment variables that hide the password. Raises OSError."""
        files = {"--cacert": self.ca, "--cert": self.certificate, "--key": self.key}
        arguments = (
            ["--tls", *(part for name, path in files.items() if path for part in (name, str(path)))] if tls else []
        )
        if not self.password:
            return arguments, {}
        [*_, password] = _File(self.username, self.password).get_credentials()
        return [*arguments, *(["--user", self.username] if self.username else [])], {"REDISCLI_AUTH": password}

    def commands(self) -> list[Command]:
        """The commands that log in. Raises OSError."""
        return [("AUTH", *_File(self.username, self.password).get_credentials())] if self.password else []

    def context(self) -> ssl.SSLContext:
        """TLS by the same files as redis-py's connections. Raises OSError."""
        made = ssl.create_default_context()
        if self.ca:
            made.load_verify_locations(self.ca)
        if self.certificate:
            made.load_cert_chain(self.certificate, self.key)
        return made

    def _options(self, username: str, password: Path | None, *, tls: bool) -> dict[str, Any]:
        files = {"ssl_ca_certs": self.ca, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        options: dict[str, Any] = {name: str(path) for name, path in files.items() if path} if tls else {}
        if password:
            # Without a login, the name of the client stays: unless it has read an answer, redis-py mistakes TLS 1.3's
            # unsolicited session tickets for an unexpected answer. A user would need a further right for it.
            options |= {"credential_provider": _File(username, password), "driver_info": None}
        return options


NO_LOGIN = Login()
"""No proof, as on a laptop."""


class _File(CredentialProvider):
    def __init__(self, username: str, password: Path) -> None:
        self._username = username
        self._password = password

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = self._password.read_text().strip("\r\n")
        return (self._username, password) if self._username else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()


class SentinelUrl(NamedTuple):
    """A URL of Sentinels: their addresses, name and database of the primary, and whether all connections use TLS."""

    sentinels: list[tuple[str, int]]
    primary: str
    database: int
    tls: bool

    @classmethod
    def parse(cls, url: str) -> Self:
        """Of `redis+sentinel://host:port,host:port/name/database`: port 26379 and database 0 where there is none."""
        scheme, _, rest = url.partition(SENTINEL)
        hosts, name, database = [*rest.split("/"), ""][:3]
        return cls(_addresses(hosts, SENTINEL_PORT), name, int(database or 0), scheme == "rediss")


class Seeds(NamedTuple):
    """A URL of cluster nodes, `redis+cluster://host:port,host:port`: the nodes, and a URL of the first."""

    url: str
    nodes: list[tuple[str, int]]

    @classmethod
    def parse(cls, url: str) -> Self:
        scheme, _, rest = url.partition(CLUSTER)
        hosts, _, path = rest.partition("/")
        return cls(f"{scheme}://{hosts.partition(',')[0]}/{path}", _addresses(hosts, REDIS_PORT))


def _addresses(hosts: str, port: int) -> list[tuple[str, int]]:
    """The host and port of each of `hosts`, host:port or host alone."""
    places = [urlsplit(f"//{host}") for host in hosts.split(",")]
    return [(place.hostname or "", place.port or port) for place in places]


def options(url: str, login: Login) -> dict[str, Any]:
    """redis-py's arguments of every connection to Redis.

    redis-py's own retry repeats a command after a lost reply, and so may apply the command several times.
    """
    return {"protocol": 2, "retry": Retry(NoBackoff(), 0), **login.options(tls=url.startswith("rediss"))}


def connect(url: str, timeout: float, login: Login = NO_LOGIN) -> Client:
    """A client that never repeats a command by itself, with `timeout` in seconds for connecting and for each answer.

    `redis+cluster://` and `rediss+cluster://` name nodes of a cluster; a node is asked for the others at once, and
    redis-py's own error is raised when no node answers. `redis+sentinel://` and `rediss+sentinel://` name Sentinels;
    each new connection asks them for the primary.
    """
    waits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    given = {**options(url, login), **waits, "health_check_interval": 0}
    if SENTINEL in url:
        watched = SentinelUrl.parse(url)
        of_sentinels = {**waits, **login.sentinel_options(tls=watched.tls)}
        sentinel: Any = Sentinel(watched.sentinels, sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]
        found: redis.Redis = sentinel.master_for(watched.primary, db=watched.database, ssl=watched.tls, **given)
        return found
    if CLUSTER in url:
        return _cluster(Seeds.parse(url), given)
    client: Client = redis.Redis.from_url(url, **given)
    return client


def _cluster(seeds: Seeds, given: dict[str, Any]) -> RedisCluster:
    others = [ClusterNode(*node) for node in seeds.nodes[1:]]  # type: ignore[no-untyped-call]
    cluster = RedisCluster.from_url(seeds.url, startup_nodes=others, **given)
    nodes = cluster.nodes_manager
    # redis-py forgets the seeds once it knows other nodes; all known nodes may have other addresses by the next
    # discovery.
    nodes.initialize = partial(nodes.initialize, additional_startup_nodes_info=seeds.nodes)  # type: ignore[method-assign]
    return cluster
