"""A commit that Redis refuses a part of: nothing of it is there, and a later attempt counts everything once."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from redis.exceptions import RedisError

from devkit.servers.child_process import LOCALHOST, free_port
from devkit.servers.redis import Redis
from streamstate.errors import Misconfigured
from streamstate.state.operations import (
    DAY_MS,
    Append,
    AppendLines,
    Delete,
    DeleteTimeline,
    ExpireBefore,
    ExpireDays,
    IncrementScores,
    Insert,
    Merge,
    Operation,
    PushRecent,
    Put,
    Remove,
    Size,
    UpdateIndex,
)
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client, connect
from streamstate.state.store import Claim, Commit, OffsetAdvance

FIRST: list[Operation] = [Merge("sum", {"n": 1}), IncrementScores("ranking", {"a": 1})]
EACH: dict[str, Operation] = {
    "put": Put("text", "x"),
    "delete": Delete("text"),
    "merge": Merge("fields", {"n": 1}, least={"l": 1}),
    "increment": IncrementScores("scores", {"a": 1}),
    "index": UpdateIndex("index", ["a"], ["b"]),
    "push_recent": PushRecent("list", {"a": 1}, 5),
    "append": Append("log", 7, "x", 5),
    "insert": Insert("family", "k", {"x": 9}),
    "remove": Remove("family", "k", "x"),
    "delete_timeline": DeleteTimeline("family", "k"),
    "expire": ExpireBefore("family", 5),
    "append_lines": AppendLines("history", "k", {"7": "[1]\n"}),
    "expire_days": ExpireDays("history", 5 * DAY_MS),
}
WRITES = {
    "set": ("put",),
    "del": ("delete", "delete_timeline", "increment"),
    "hset": ("merge", "append_lines", "expire_days", "increment"),
    "hgetall": ("increment",),
    "zscore": ("delete",),
    "zadd": ("increment", "index", "push_recent", "insert", "append_lines"),
    "hget": ("append_lines",),
    "hdel": ("expire_days", "increment"),
    "zremrangebyrank": ("push_recent", "expire", "increment"),
    "xadd": ("append",),
    "zrem": ("index", "remove", "delete_timeline", "expire"),
    "zremrangebyscore": ("insert",),
    "hincrby": ("put",),
}
CASES = [(command, kind) for command, kinds in WRITES.items() for kind in kinds]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    redis = Redis(tmp_path_factory.mktemp("refusing"), free_port())
    redis.start()
    yield redis
    redis.stop()


@pytest.fixture
def client(server: Redis) -> Iterator[Client]:
    """Of the server, which is empty."""
    with connect(server.url, 5.0) as client:
        client.config_set("maxmemory-policy", "noeviction", "maxmemory", 0)
        client.flushall()
        yield client


@pytest.fixture
def store(client: Client) -> RedisStore:
    return RedisStore(client, "app")


def attempt(claim: Claim, *operations: Operation) -> Commit:
    return Commit(claim, [OffsetAdvance("topic", None, 3)], [*FIRST, *operations], {"count": 1})


def contents(client: Client) -> dict[bytes, object]:
    return {key: client.dump(key) for key in client.scan_iter("*")}


def assert_refused_then_applied(store: RedisStore, client: Client, commit: Commit, mend: Callable[[], object]) -> None:
    before = contents(client)
    for _ in range(2):
        with pytest.raises(RedisError):
            store.commit(commit)
        assert contents(client) == before
    mend()
    store.commit(commit)
    tag = f"{{app:{commit.claim.partition}}}"
    assert client.hget(f"{tag}:sum", "n") == b"1"
    assert client.zscore(f"{tag}:ranking", "a") == -1
    assert (client.hget(tag, "offset:topic"), client.hget(tag, "count:count")) == (b"3", b"1")


@pytest.mark.parametrize("kind", [kind for kind in EACH if kind not in ("put", "delete")])
@pytest.mark.parametrize("type_of_another", ["text", "set"])
def test_a_key_of_another_type(client: Client, store: RedisStore, kind: str, type_of_another: str) -> None:
    claim = store.claim(0, "a:1", {})
    operation = EACH[kind]
    in_family = isinstance(operation, Insert | AppendLines | Remove | DeleteTimeline | ExpireBefore | ExpireDays)
    keys = [f"{{app:0}}:{getattr(operation, 'family' if in_family else 'key')}"]
    keys += [f"{keys[0]}:{operation.key}"] if isinstance(operation, Insert | AppendLines | Remove) else []
    for key in keys:
        client.set(key, "text") if type_of_another == "text" else client.sadd(key, "member")
        assert_refused_then_applied(store, client, attempt(claim, operation), partial(client.delete, key))
        client.flushall()
        claim = store.claim(0, "a:1", {})


@pytest.mark.parametrize("bucket", [0, 1, 2])
@pytest.mark.parametrize("held", [0, 199])
def test_a_bucket_of_another_type(client: Client, store: RedisStore, bucket: int, held: int) -> None:
    """Of a ranking that becomes large, and of a large ranking that gets another bucket from the first."""
    claim = store.claim(0, "a:1", {})
    members = {f"m{number}": 1 for number in range(held)}
    store.commit(
        Commit(claim, [OffsetAdvance("other", None, 1)], [IncrementScores("compact:k", members, compact=True)])
    )
    key = f"{{app:0}}:compact.{bucket}:k"
    kept = client.dump(key)
    client.set(key, "text")
    more = IncrementScores("compact:k", {f"m{number}": 1 for number in range(250)}, compact=True)

    def mend() -> None:
        client.delete(key)
        if kept:
            client.restore(key, 0, kept)

    assert_refused_then_applied(store, client, attempt(claim, more), mend)
    assert store.read({0: [Size("compact:k", compact=True)]})[0].values == [250]


@pytest.mark.parametrize(("kind", "family"), [("expire", "family"), ("expire_days", "history")])
def test_an_outdated_timeline_of_another_type(client: Client, store: RedisStore, kind: str, family: str) -> None:
    claim = store.claim(0, "a:1", {})
    client.zadd(f"{{app:0}}:{family}", {"k": 1})
    client.set(f"{{app:0}}:{family}:k", "text")
    commit = attempt(claim, EACH[kind])
    assert_refused_then_applied(store, client, commit, lambda: client.delete(f"{{app:0}}:{family}:k"))


@pytest.mark.parametrize("operation", [Merge("fields", {"n": 1}), Merge("fields", {}, least={"n": 1})])
def test_a_number_of_which_a_byte_is_wrong(client: Client, store: RedisStore, operation: Merge) -> None:
    """Else it would be counted from nothing, and nobody could tell any more."""
    commit = attempt(store.claim(0, "a:1", {}), operation)
    client.hset("{app:0}:fields", "n", "x2")
    assert_refused_then_applied(store, client, commit, partial(client.hset, "{app:0}:fields", "n", "12"))


@pytest.mark.parametrize(("command", "kind"), CASES)
def test_a_user_who_may_not_run_a_command(server: Redis, client: Client, command: str, kind: str) -> None:
    client.acl_setuser(
        "writer", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@all"], commands=[f"-{command}"]
    )
    writer = connect(f"redis://writer:secret@{LOCALHOST}:{server.port}/0", 5.0)
    claim = RedisStore(client, "app").claim(0, "a:1", {})
    client.zadd("{app:0}:family", {"k": 1})
    client.zadd("{app:0}:family:k", {"x": 1})
    client.zadd("{app:0}:history", {"k": 1})
    client.hset("{app:0}:history:k", "0", "[1]\n")
    assert_refused_then_applied(
        RedisStore(writer, "app"),
        client,
        attempt(claim, EACH[kind]),
        partial(client.acl_setuser, "writer", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@all"]),
    )


def test_a_redis_that_lets_go_of_keys_is_refused_until_it_keeps_them(client: Client, store: RedisStore) -> None:
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(Misconfigured, match="set maxmemory-policy noeviction"):
        store.claim(0, "a:1", {})
    assert contents(client) == {}
    client.config_set("maxmemory-policy", "volatile-lru")
    store.claim(0, "a:1", {})


def test_a_replica_is_refused_although_it_can_be_written_to(client: Client) -> None:
    client.config_set("replica-read-only", "no")
    client.replicaof(LOCALHOST, free_port())
    with pytest.raises(Misconfigured, match="name its primary"):
        RedisStore(client, "app").claim(0, "a:1", {})
    client.replicaof("NO", "ONE")
    RedisStore(client, "app").claim(0, "a:1", {})


def test_what_a_later_release_keeps_is_left_alone(client: Client, store: RedisStore) -> None:
    claim = store.claim(0, "a:1", {})
    client.hset("{app:0}", mapping={"later:topic": "x", "later": "y"})
    store.commit(attempt(claim))
    assert store.read({0: []})[0].positions == {"topic": 3}
    assert client.hmget("{app:0}", "later:topic", "later") == [b"x", b"y"]


def test_a_full_memory(client: Client, store: RedisStore) -> None:
    claim = store.claim(0, "a:1", {})
    client.config_set("maxmemory", 1)
    assert_refused_then_applied(store, client, attempt(claim), lambda: client.config_set("maxmemory", 0))


def test_a_commit_that_uses_one_key_as_two_types(client: Client, store: RedisStore) -> None:
    claim = store.claim(0, "a:1", {})
    with pytest.raises(RedisError, match="one commit uses a key as text and as a ranking"):
        store.commit(attempt(claim, Put("key", "x"), IncrementScores("key", {"a": 1})))
    assert not client.exists("{app:0}:sum", "{app:0}:key")
    store.commit(attempt(claim, Put("key", "x"), Delete("key"), IncrementScores("key", {"a": 1})))
    assert client.zscore("{app:0}:key", "a") == -1
