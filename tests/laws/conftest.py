"""The stores of the laws, each with faults of its server."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import redis

from devkit.servers.redis import Redis
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client, connect
from streamstate.state.store import Claim, Store
from tests.laws.stored import FailingStore
from tests.redis_servers import three_nodes

DATABASE = 9


@dataclass(frozen=True)
class Subject:
    """A store and two faults: `restart` gives a claim as an earlier run of the server gave it, `empty` is FLUSHALL."""

    store: Store
    restart: Callable[[Claim], Claim]
    empty: Callable[[], object]


@pytest.fixture(scope="session")
def redis_client(redis_server: Redis) -> Iterator[Client]:
    """A database that the laws have for themselves."""
    client = connect(f"redis://127.0.0.1:{redis_server.port}/{DATABASE}", 10.0)
    yield client
    client.close()


@pytest.fixture(scope="session")
def redis_name() -> Callable[[], str]:
    """Makes names of apps that are not there yet."""
    numbers = itertools.count()
    return lambda: f"law{next(numbers)}"


@pytest.fixture(scope="session")
def redis_store(redis_client: Client, redis_name: Callable[[], str]) -> Callable[[], RedisStore]:
    """Makes stores with nothing in them."""
    return lambda: RedisStore(redis_client, redis_name())


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """The ports of a cluster of three nodes."""
    with three_nodes(tmp_path_factory.mktemp("nodes")) as ports:
        yield ports


def _memory() -> Subject:
    store = FailingStore()

    def restart(claim: Claim) -> Claim:
        store.restart()
        return claim

    return Subject(store, restart, store.empty)


@pytest.fixture(params=["memory", "redis"])
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param == "memory":
        return _memory()
    make: Callable[[], RedisStore] = request.getfixturevalue("redis_store")
    client: redis.Redis = request.getfixturevalue("redis_client")
    return Subject(make(), lambda claim: replace(claim, server="0" * 40), client.flushdb)


@pytest.fixture
def store(subject: Subject) -> Store:
    return subject.store
