"""The memory of a state is estimated from a sample, beside other states."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from streamstate.releases.footprint import SHARE, measured
from streamstate.state.redis_connections import Client

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
