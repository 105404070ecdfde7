"""The deployments that a Redis has: what a command needs to find each, as stored by its streams."""

from contextlib import suppress
from typing import Any

import msgspec
from redis.exceptions import NoPermissionError

from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import DEPLOYMENTS, deployment_key


class Recorded(msgspec.Struct, frozen=True):
    """A deployment: its service, and the variables, without prefix, that make its app; None for an unset variable."""

    service: str
    settings: dict[str, str | None]


class Deployments:
    """The deployments in the Redis of `client`. Each is a key among those of its state; a set has their names."""

    def __init__(self, client: Client) -> None:
        self._client: Any = client

    def store(self, name: str, recorded: Recorded) -> None:
        """Raises `NoPermissionError` for a user without the right to the set, with the deployment stored."""
        self._client.set(deployment_key(name), msgspec.json.encode(recorded))
        self._client.sadd(DEPLOYMENTS, name)

    def read(self, name: str) -> Recorded | None:
        """The deployment of this name; None without one, and for a user without rights to its keys."""
        with suppress(NoPermissionError):
            return decoded(self._client.get(deployment_key(name)))
        return None

    def all(self) -> dict[str, Recorded]:
        """All deployments by name, in alphabetical order; only those whose keys the user may read."""
        names: set[bytes] = set()
        with suppress(NoPermissionError):
            names = self._client.smembers(DEPLOYMENTS)
        read = {name: self.read(name) for name in sorted(each.decode() for each in names)}
        return {name: recorded for name, recorded in read.items() if recorded}

    def delete(self, name: str) -> None:
        self._client.srem(DEPLOYMENTS, name)
        self._client.unlink(deployment_key(name))


def decoded(text: bytes | None) -> Recorded | None:
    """The deployment in the stored `text`, None without one."""
    return None if text is None else msgspec.json.decode(text, type=Recorded)
