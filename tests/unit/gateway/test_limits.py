"""Limits: never more than is allowed, whoever asks where."""

import asyncio
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from devkit.servers.child_process import LOCALHOST, free_port
from devkit.servers.redis import Redis
from services.gateway.access import limits
from services.gateway.access.limits import Limiter, OwnBuckets, SharedBuckets
from streamstate.state.redis_connections import connect
from streamstate.state.redis_reader import open_commands
from streamstate.web.access import keys
from tests.serving import new_address, running
from tests.unit.gateway.deployment import USER, Services
from tests.unit.gateway.guarding import TOKEN
from tests.waiting import REQUEST_S, now_s, transports_closed

RATE = 40
STEPS = st.lists(
    st.tuples(st.floats(0, 3), st.integers(1, 2 * RATE), st.integers(1, 2 * RATE)), min_size=1, max_size=40
)


@given(STEPS)
def test_a_bucket_never_gives_more_than_its_rate(steps: list[tuple[float, int, int]]) -> None:
    """A full bucket admits a request that costs more than the bucket holds."""

    async def given_in_all() -> None:
        now, total, overdrawn = 0.0, 0, 0
        buckets = OwnBuckets(lambda: now)
        for pause, needed, more in steps:
            now += pause
            lease = await buckets.lease("a", RATE, needed, needed + more)
            total += lease.given
            assert lease.given == 0 or needed <= lease.given <= needed + more
            overdrawn = max(overdrawn, needed - RATE)
            assert total <= RATE * (1 + now) + overdrawn + 1e-6
            if not lease.given:
                now += lease.wait_s + 1e-9
                after = await buckets.lease("a", RATE, needed, needed)
                total += after.given
                assert after.given == needed

    asyncio.run(given_in_all())


def shared(url: str, prefix: str) -> SharedBuckets:
    return SharedBuckets(open_commands(url, 0.5), prefix)


CLOCK = "redis.call('TIME')"


@given(st.lists(st.tuples(st.integers(0, 24), st.integers(1, 2 * RATE), st.integers(0, 2 * RATE)), max_size=10))
def test_redis_gives_as_a_bucket_in_memory_does(redis_server: Redis, steps: list[tuple[int, int, int]]) -> None:
    """The script, with a clock that the test sets: eighths of a second, which floats hold exactly."""
    now_ms, buckets = 0, OwnBuckets(lambda: now_ms / 1_000)
    assert CLOCK in limits.SCRIPT
    with connect(redis_server.url, REQUEST_S) as client:
        client.delete("bucket")
        for eighths, needed, more in steps:
            now_ms += 125 * eighths
            own = asyncio.run(buckets.lease("a", RATE, needed, needed + more))
            script = limits.SCRIPT.replace(CLOCK, f"{{{now_ms // 1_000}, {now_ms % 1_000 * 1_000}}}")
            given_, left, wait_ms = client.eval(script, 1, "bucket", RATE, needed, needed + more)
            assert (given_, left) == (own.given, own.left)
            assert wait_ms == math.ceil(round(own.wait_s * 1_000, 6))
            # The bucket expires by the clock of Redis.
            assert client.persist("bucket")


async def ended(*buckets: SharedBuckets) -> None:
    for each in buckets:
        await each.close()
    await transports_closed()


def test_callers_do_not_share_and_workers_do(redis_server: Redis) -> None:
    async def spend() -> list[int]:
        buckets = [shared(redis_server.url, "workers") for _ in range(4)]
        workers = [Limiter(each) for each in buckets]
        spent = []
        for name in ("one", "two"):
            all_of_it = [await worker.spend(name, RATE, 1) for worker in workers for _ in range(RATE)]
            spent.append(sum(each.fine for each in all_of_it))
        await ended(*buckets)
        return spent

    start = now_s()
    spent = asyncio.run(spend())
    most = RATE * (1 + now_s() - start)
    assert all(RATE * 0.7 <= each <= most for each in spent)


def test_requests_at_the_same_time_take_no_tokens_from_each_other(redis_server: Redis) -> None:
    async def spend() -> list[bool]:
        buckets = shared(redis_server.url, "burst")
        limiter = Limiter(buckets)
        spent = await asyncio.gather(*(limiter.spend("a", RATE, 1) for _ in range(RATE // 2)))
        await ended(buckets)
        return [each.fine for each in spent]

    assert asyncio.run(spend()) == [True] * (RATE // 2)


def test_what_was_not_known_before_is_paid_later() -> None:
    async def run() -> None:
        now = 0.0
        limiter = Limiter(OwnBuckets(lambda: now))
        assert (await limiter.spend("a", 10, 1)).fine
        limiter.charge("a", 25)
        first = await limiter.spend("a", 10, 1)
        now += first.wait_s + 1e-9
        assert (await limiter.spend("a", 10, 1)).fine
        after = await limiter.spend("a", 10, 1)
        assert not after.fine
        assert 1 < after.wait_s < 3

    asyncio.run(run())


def test_without_redis_each_worker_limits_alone() -> None:
    async def run() -> int:
        limiter = Limiter(shared(f"redis://{LOCALHOST}:{free_port()}/0", "nobody"))
        return sum([(await limiter.spend("a", RATE, 1)).fine for _ in range(3 * RATE)])

    start = now_s()
    assert RATE <= asyncio.run(run()) <= RATE * (1 + now_s() - start)


KEY = keys.generate()
FEW = 5
LIMITS = {"requests": (FEW, 1_000_000), "cost": (1_000_000, FEW)}


@pytest.fixture(params=LIMITS)
def gateways(
    request: pytest.FixtureRequest, deployment: Services, redis_server: Redis, tmp_path: Path
) -> Iterator[list[str]]:
    """The addresses of two gateways that are processes and share limits."""
    requests, cost = LIMITS[request.param]
    (tmp_path / "keys").write_text(
        f'{{"name": "{request.param}", "sha256": "{keys.digest(KEY)}", "scopes": ["read"], '
        f'"requests_per_s": {requests}, "cost_per_s": {cost}}}'
    )
    (tmp_path / "tokens").write_text(TOKEN)
    settings = {
        "ACCESS": "required",
        "ACCESS_KEYS": str(tmp_path / "keys"),
        "INTERNAL_TOKENS": str(tmp_path / "tokens"),
        "LIMITS_REDIS": redis_server.url,
        "INSTANCES": f'{{"metrics": "{",".join(deployment.addresses()["metrics"])}"}}',
    }
    addresses = [new_address(), new_address()]
    with (
        running("services.gateway", addresses[0], tmp_path, settings),
        running("services.gateway", addresses[1], tmp_path, settings),
    ):
        yield addresses


def test_two_gateways_let_no_more_through_than_one(gateways: list[str]) -> None:
    statuses: list[int] = []
    start = now_s()

    def ask(address: str) -> None:
        pool = urllib3.PoolManager(maxsize=1, retries=False)
        while statuses.count(429) < 3 * FEW:
            headers = {"Authorization": f"Bearer {KEY}"}
            response = pool.request("GET", f"http://{address}/v1/users/{USER}/metrics", headers=headers)
            statuses.append(response.status)
            if response.status == 429:
                assert int(response.headers["Retry-After"]) >= 1
                assert "r=0" in response.headers["RateLimit"]
            else:
                assert ";q=" in response.headers["RateLimit-Policy"]

    with ThreadPoolExecutor() as pool:
        list(pool.map(ask, gateways * 2))
    assert set(statuses) == {200, 429}
    assert statuses.count(200) <= FEW * (1 + now_s() - start)
