"""The deletion of a state in Redis: only the given keys, in small steps, and harmless after a stop half way."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from streamstate.errors import Fenced, IncompleteCommit
from streamstate.releases.footprint import SHARE, measured
from streamstate.state import deletion
from streamstate.state.deletion import Holding, StateDeleter
from streamstate.state.operations import Fields, Merge, Put, Value
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.state.store import Claim, Commit, OffsetAdvance

KEYS = 700
"""More than are deleted at once."""


class Killed(Exception):
    pass


@pytest.fixture
def app(redis_name: Callable[[], str]) -> str:
    return redis_name()


@pytest.fixture
def store(redis_client: Client, app: str) -> RedisStore:
    """Partitions 0 and 1, and partitions of an app with the same prefix in its name."""
    for name in (app, f"{app}-too"):
        store = RedisStore(redis_client, name)
        for partition in (0, 1):
            build(store, partition)
    return RedisStore(redis_client, app)


def build(store: RedisStore, partition: int) -> Claim:
    claim = store.claim(partition, "a:1", {"topic": 5})
    fields = [Merge(f"user:{number}", {"count": 1}) for number in range(KEYS)]
    store.commit(Commit(claim, [OffsetAdvance("topic", None, 3)], [Put("name:Ä\n*", "x"), *fields]))
    return claim


def killed_after(steps: int) -> Callable[[int], None]:
    left = iter(range(steps))

    def deleted(_keys: int) -> None:
        if next(left, None) is None:
            raise Killed

    return deleted


@pytest.mark.usefixtures("store")
def test_what_is_stored_is_counted_by_partition(redis_client: Client, app: str) -> None:
    held = Holding(KEYS + 2, {"topic": 3})
    assert StateDeleter(redis_client, app).holdings() == {0: held, 1: held}
    assert StateDeleter(redis_client, "nothing").holdings() == {}


def test_a_partition_is_deleted_and_nothing_else(redis_client: Client, app: str, store: RedisStore) -> None:
    counted: list[int] = []
    StateDeleter(redis_client, app).run([0], counted.append)
    assert sum(counted) == KEYS + 2
    assert max(counted) <= deletion.UNLINKED
    assert list(StateDeleter(redis_client, app).holdings()) == [1]
    assert list(StateDeleter(redis_client, f"{app}-too").holdings()) == [0, 1]
    assert store.read({1: [Fields("user:5")]})[1].values == [{"count": 1}]


def test_the_owner_of_before_commits_nothing_and_the_next_one_builds_from_nothing(
    redis_client: Client, app: str, store: RedisStore
) -> None:
    claim = store.claim(0, "a:1", {"topic": 5})
    following = Commit(claim, [OffsetAdvance("topic", 3, 4)], [Merge("user:1", {"count": 1})])
    first = Commit(claim, [OffsetAdvance("topic", None, 4)], [Merge("user:1", {"count": 1})])
    StateDeleter(redis_client, app).run([0])
    for commit in (following, first):
        with pytest.raises(Fenced):
            store.commit(commit)
    assert build(store, 0).epoch > claim.epoch
    assert store.read({0: [Fields("user:1")]})[0].values == [{"count": 1}]


@pytest.mark.parametrize("steps", range(3))
def test_a_deletion_that_was_killed_is_refused_until_it_is_run_again(
    redis_client: Client, app: str, store: RedisStore, steps: int
) -> None:
    claim = store.claim(0, "a:1", {"topic": 5})
    commit = Commit(claim, [OffsetAdvance("topic", 3, 4)], [Put("name", "x")])
    with pytest.raises(Killed):
        StateDeleter(redis_client, app).run([0, 1], killed_after(steps))
    for verb in (
        lambda: store.read({0: [Value("name")]}),
        lambda: store.claim(0, "b:1", {"topic": 5}),
        lambda: store.commit(commit),
        lambda: store.skip(0, "topic", 9, "why"),
    ):
        with pytest.raises(IncompleteCommit, match=r"restore of it, stopped half way.* `streamstate reset SERVICE"):
            verb()
    again = StateDeleter(redis_client, app)
    assert set(again.holdings()) == {0, 1}
    again.run(again.holdings())
    assert again.holdings() == {}
    build(store, 0)


# The memory of a state is estimated from a sample, beside other states.

MB = 2**20


@contextmanager
def configured(client: Client, maxmemory: int) -> Iterator[None]:
    before = str(client.config_get("maxmemory")["maxmemory"])
    client.config_set("maxmemory", maxmemory)
    try:
        yield
    finally:
        client.config_set("maxmemory", before)


@pytest.fixture
def states(redis_client: Client, redis_name: Callable[[], str]) -> tuple[str, str]:
    """A state of many small keys, and one of few large keys."""
    small, large = redis_name(), redis_name()
    pipeline = redis_client.pipeline()
    for key in range(6_000):
        pipeline.hset(f"{{{small}:{key % 4}}}:user:{key}", mapping={"plays": key, "first": 10**12})
    for key in range(600):
        pipeline.set(f"{{{large}:{key % 4}}}:log:{key}", "x" * 3_000)
    pipeline.execute()
    return small, large


def held(client: Client, app: str) -> int:
    return sum(client.memory_usage(key) or 0 for key in client.scan_iter(match=f"{{{app}:*", count=1_000))


def test_the_estimate_is_within_a_third_of_the_memory(redis_client: Client, states: tuple[str, str]) -> None:
    for app in states:
        assert measured(redis_client, app).state == pytest.approx(held(redis_client, app), rel=0.34)
    assert measured(redis_client, "no-such-app").state == 0


def test_a_state_fits_up_to_nine_tenths_of_the_bound(redis_client: Client, states: tuple[str, str]) -> None:
    small, _ = states
    assert measured(redis_client, small).left == math.inf
    used = redis_client.info("memory")["used_memory"]
    with configured(redis_client, int(used / SHARE) + 100 * MB):
        assert measured(redis_client, small).fits
    with configured(redis_client, used + MB // 4):
        assert not measured(redis_client, small).fits
