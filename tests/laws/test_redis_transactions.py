"""Each read is a transaction, which has its own answers or its own error, with threads and on an event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis
from redis.exceptions import RedisError, ResponseError

from devkit.servers.child_process import LOCALHOST, free_port
from devkit.servers.redis import Redis
from streamstate.state import redis_rights as acl
from streamstate.state.operations import Between, Fields, IncrementScores, Insert, Merge, Operation, Read, Top, Value
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import NO_LOGIN, Client, Login, connect
from streamstate.state.redis_reader import RedisReader, open_commands
from streamstate.state.redis_reads import tag
from streamstate.state.store import Commit, OffsetAdvance
from tests.laws.conftest import DATABASE
from tests.redis_servers import Migration, cluster_url

T = TypeVar("T")

READS: list[Read] = [Fields("f"), Top("t", 3), Between("i:k", 0)]
VALUES = [{"n": 1}, [("a", 2)], [("x", 5)]]
WRONG: list[Read] = [Fields("f"), Top("f", 3), Value("f")]
"""Of another type than the key."""

Get = Callable[..., list[Any]]
"""By an address, for an app: what each of some reads of partition 0 gets, values or an error."""


def of_threads(url: str, app: str, *asked: Sequence[Read], login: Login = NO_LOGIN) -> list[Any]:
    store = RedisStore(connect(url, 5.0, login), app)

    def get(reads: Sequence[Read]) -> Any:
        try:
            return store.read({0: reads})[0].values
        except RedisError as error:
            return error

    return [get(reads) for reads in asked]


def of_a_loop(url: str, app: str, *asked: Sequence[Read], login: Login = NO_LOGIN) -> list[Any]:
    """All at the same time."""

    async def get(reader: RedisReader) -> list[Any]:
        return list(await asyncio.gather(*(values(reader, reads) for reads in asked), return_exceptions=True))

    return on_a_loop(url, app, get, login=login)


def on_a_loop(
    url: str,
    app: str,
    use: Callable[[RedisReader], Coroutine[Any, Any, T]],
    timeout: float = 5.0,
    login: Login = NO_LOGIN,
) -> T:
    async def run() -> T:
        reader = RedisReader(open_commands(url, timeout, login), app)
        try:
            return await use(reader)
        finally:
            await reader.close()

    return asyncio.run(run())


async def values(reader: RedisReader, reads: Sequence[Read]) -> Sequence[Any]:
    return (await reader.read({0: reads}))[0].values


def write(store: RedisStore) -> None:
    changes: list[Operation] = [Merge("f", {"n": 1}), IncrementScores("t", {"a": 2}), Insert("i", "k", {"x": 5})]
    store.commit(Commit(store.claim(0, "a:1", {}), [OffsetAdvance("topic", None, 1)], changes))


@pytest.fixture(params=[of_threads, of_a_loop])
def get(request: pytest.FixtureRequest) -> Get:
    of: Get = request.param
    return of


@pytest.fixture
def app(redis_client: Client, redis_name: Callable[[], str]) -> Iterator[str]:
    """Its state is what `VALUES` has. Redis has a user of the same name, who may read."""
    name = redis_name()
    write(RedisStore(redis_client, name))
    allow(redis_client, name, acl.of_reader())
    yield name
    redis_client.acl_deluser(name)


def allow(client: Client, user: str, commands: set[str]) -> None:
    rule = acl.rule(user, acl.keys(user), commands)
    client.execute_command(*f"ACL SETUSER {rule} on >word".split())  # type: ignore[no-untyped-call]


@pytest.fixture
def login(app: str, tmp_path: Path) -> Login:
    password = tmp_path / "password"
    password.write_text("word\n")
    return Login(app, password)


def address(server: Redis) -> str:
    return f"redis://{LOCALHOST}:{server.port}/{DATABASE}"


def test_each_of_many_gets_its_own_answer(redis_server: Redis, app: str, login: Login, get: Get) -> None:
    got = get(address(redis_server), app, *[READS, WRONG, []] * 50, login=login)
    assert [got[at] for at in range(0, 150, 3)] == [VALUES] * 50
    assert all(isinstance(error, ResponseError) and "WRONGTYPE" in str(error) for error in got[1::3])
    assert got[2::3] == [[]] * 50


@pytest.mark.parametrize("lacking", ["multi", "hgetall", "zrange", "evalsha", "exec"])
def test_what_redis_refuses_is_told(
    redis_server: Redis, redis_client: Client, app: str, login: Login, get: Get, lacking: str
) -> None:
    """After a refused command in the queue, EXEC reports only the fact."""
    allow(redis_client, app, acl.of_reader() - {lacking})
    for error in get(address(redis_server), app, READS, READS, login=login):
        assert isinstance(error, ResponseError)
        assert f"'{lacking}'" in str(error)


@contextmanager
def full(*servers: Client) -> Iterator[None]:
    """No memory is left: what would need more is refused, and so is every transaction."""
    for server in servers:
        server.config_set("maxmemory", 1)
    try:
        yield
    finally:
        for server in servers:
            server.config_set("maxmemory", 0)


def test_a_server_that_is_full_is_read(
    redis_server: Redis, redis_client: Client, app: str, login: Login, get: Get
) -> None:
    with full(redis_client):
        right, wrong, nothing = get(address(redis_server), app, READS, WRONG, [], login=login)
    assert (right, nothing) == (VALUES, [])
    assert "WRONGTYPE" in str(wrong)


def test_reads_survive_a_connection_that_is_cut(
    redis_server: Redis, redis_client: Client, app: str, login: Login
) -> None:
    async def use(reader: RedisReader) -> None:
        for _ in range(3):
            assert await values(reader, READS) == VALUES
            asked = [asyncio.create_task(values(reader, READS)) for _ in range(200)]
            await asyncio.to_thread(redis_client.execute_command, "CLIENT", "KILL", "USER", app)
            assert await asyncio.gather(*asked) == [VALUES] * 200

    on_a_loop(address(redis_server), app, use, login=login)


@pytest.fixture(scope="module")
def cluster(nodes: list[int]) -> list[int]:
    """The ports of its nodes; the app `app` is written to."""
    write(RedisStore(connect(cluster_url(nodes), 5.0), "app"))
    return nodes


def test_a_read_of_a_cluster_is_told_its_error(cluster: list[int], get: Get) -> None:
    right, wrong, again = get(cluster_url(cluster), "app", READS, WRONG, READS)
    assert (right, again) == (VALUES, VALUES)
    assert "WRONGTYPE" in str(wrong)


def test_a_slot_that_moves_to_and_fro_is_read_rightly_or_not_at_all(cluster: list[int]) -> None:
    """Nothing is written meanwhile, which is refused while a slot moves."""
    right: list[bool] = []

    async def read(reader: RedisReader, count: int) -> None:
        while True:
            with suppress(RedisError):
                right.append(await values(reader, READS[:count]) == VALUES[:count])

    async def use(reader: RedisReader) -> None:
        reading = [asyncio.create_task(read(reader, count)) for count in range(1, 4)]
        for _ in range(6):
            migration = await asyncio.to_thread(Migration.start, cluster, tag("app", 0))
            await asyncio.to_thread(migration.move_rest, 0.05)
            assert await values(reader, READS) == VALUES
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)

    on_a_loop(cluster_url(cluster), "app", use)
    assert len(right) > 6
    assert all(right)


def hang(cluster: list[int]) -> None:
    for port in cluster:
        redis.Redis(port=port).client_pause(2_000)


def test_nodes_that_hang_are_read_again_when_they_go_on(cluster: list[int]) -> None:
    async def use(reader: RedisReader) -> None:
        assert await values(reader, READS) == VALUES
        hang(cluster)
        with pytest.raises(RedisError):
            await values(reader, READS)
        read = None
        while read is None:
            with suppress(RedisError):
                read = await values(reader, READS)
        assert read == VALUES

    on_a_loop(cluster_url(cluster), "app", use, timeout=0.3)


def test_a_cluster_that_is_gone_is_an_error_of_redis() -> None:
    gone = f"redis+cluster://{LOCALHOST}:{free_port()}"

    async def use(reader: RedisReader) -> None:
        with pytest.raises(RedisError):
            await values(reader, READS)
        commands = open_commands(gone, 5.0)
        with pytest.raises(RedisError):
            await commands.execute_command("GET", "key")
        await commands.aclose()

    on_a_loop(gone, "app", use)
