"""A plan is within a fifth of the memory that the whole state takes in Redis, and leaves nothing there."""

import json
import os
import signal
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
import redis

from streamstate.cli.profiles.plan import Planning
from streamstate.cli.profiles.scratch import TrialState
from streamstate.errors import Declined
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.profile import profile_app
from streamstate.profile.declaration import Declaration
from streamstate.profile.file import parse
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.testing import Driver

DAY_MS = 86_400_000
BEGIN = 20_000 * DAY_MS
PARTITIONS, EVENTS, USERS, DAYS = 4, 50_000, 4_000, 14
WITHIN = 0.2

HABITS = parse("""
name: habits
topic: plays
key: long
path: /v1/users/<key>/habits
fields: {artist: int, device: str}
measures:
  plays: {count: all, over: [1h, 7d, ever]}
  artists: {top: 5, of: artist, over: [7d, ever]}
  devices: {count: all, by: device, over: 7d}
""")
APP = profile_app(HABITS)
EVERYWHERE = parse("""
name: charts
topic: plays
key: long
path: /v1/charts
fields: {artist: int, device: str}
measures: {plays: {count: all, by: device}, artists: {top: 5, of: artist}}
""")
Log = dict[int, list[RawRecord]]


@cache
def plays() -> Log:
    """Events of users with Zipf's frequencies, over the time that the histories keep."""
    draw = np.random.default_rng(1)
    frequencies = 1 / np.arange(1, USERS + 1)
    users = draw.choice(USERS, size=EVENTS, p=frequencies / frequencies.sum())
    artists = draw.zipf(1.3, size=EVENTS) % 1_000
    log: Log = {partition: [] for partition in range(PARTITIONS)}
    for number, (user, artist) in enumerate(zip(users.tolist(), artists.tolist(), strict=True)):
        key = LONG.encode(user)
        held = log[partition_of(key, PARTITIONS)]
        value = json.dumps({"artist": artist, "device": ("phone", "tv")[artist % 2]}).encode()
        held.append((len(held), BEGIN + number * DAYS * DAY_MS // EVENTS, key, value))
    return log


def until(day: float) -> Log:
    end = BEGIN + int(day * DAY_MS)
    return {partition: [record for record in records if record[1] < end] for partition, records in plays().items()}


def planning(log: Log, declared: Declaration = HABITS) -> Planning:
    def read(partitions: Sequence[int]) -> Iterator[tuple[int, RawRecord]]:
        return ((partition, record) for partition in partitions for record in log[partition])

    sizes = {partition: len(records) for partition, records in log.items()}
    return Planning(declared, profile_app(declared), sizes, read, BEGIN + DAYS * DAY_MS, DAY_MS)


@pytest.fixture(scope="module")
def used(redis_client: Client) -> int:
    """The memory of Redis that the whole state takes."""
    found = 0
    # The first fold loads the scripts.
    for _ in range(2):
        redis_client.flushdb()
        before = redis_client.info("memory")["used_memory"]
        driver = Driver(APP, RedisStore(redis_client, APP.name), PARTITIONS)
        for partition, records in plays().items():
            for start in range(0, len(records), 500):
                driver.feed(partition, {"plays": records[start : start + 500]})
        found = redis_client.info("memory")["used_memory"] - before
    redis_client.flushdb()
    return found


@pytest.mark.parametrize("records", [EVENTS, 10_000])
def test_the_present_memory(used: int, redis_client: Client, records: int) -> None:
    assert isinstance(redis_client, redis.Redis)
    plan = planning(plays()).plan(redis_client, records)
    assert plan.now.together == pytest.approx(used, rel=WITHIN)
    assert plan.records == EVENTS
    assert plan.keys == len({record[2] for held in plays().values() for record in held})
    assert (plan.sampled == EVENTS) == (records == EVENTS)
    assert plan.sampled <= 1.2 * records
    assert plan.redis_us > 0 < plan.python_us
    assert redis_client.dbsize() == 0


@pytest.mark.parametrize("days", [4, 7])
def test_the_memory_with_full_windows(used: int, redis_client: Client, days: int) -> None:
    assert isinstance(redis_client, redis.Redis)
    plan = planning(until(days)).plan(redis_client, 50_000)
    assert plan.kept_days == DAYS
    assert plan.span_days == pytest.approx(days, rel=0.01)
    assert plan.full
    assert plan.full.together == pytest.approx(used, rel=WITHIN)


def test_over_all_keys_a_partition_stands_for_all(redis_client: Client) -> None:
    assert isinstance(redis_client, redis.Redis)
    whole, part = (planning(plays(), EVERYWHERE).plan(redis_client, records) for records in (EVENTS, 5_000))
    assert whole.sampled == EVENTS > 2 * part.sampled
    assert part.now.together == pytest.approx(whole.now.together, rel=WITHIN)
    assert part.full == part.now


def test_an_interrupted_plan_leaves_nothing(redis_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(redis_client, redis.Redis)

    def terminated(_self: TrialState, _keys: int) -> None:
        assert redis_client.dbsize() > 0
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(TrialState, "expire", terminated)
    with pytest.raises(KeyboardInterrupt):
        planning(until(1)).plan(redis_client, 1_000)
    assert redis_client.dbsize() == 0


def test_what_a_killed_plan_left_is_deleted(redis_client: Client) -> None:
    assert isinstance(redis_client, redis.Redis)
    RedisStore(redis_client, "habits.busy").claim(0, "killed", {})
    planning(until(1)).plan(redis_client, 1_000)
    assert redis_client.dbsize() == 0


def test_without_room_the_next_step_is_said(redis_client: Client) -> None:
    assert isinstance(redis_client, redis.Redis)
    redis_client.config_set("maxmemory", redis_client.info("memory")["used_memory"] + 1_000_000)
    try:
        with pytest.raises(Declined, match="--records, or name a Redis for trials by STREAMSTATE_REDIS"):
            planning(plays()).plan(redis_client, 10_000)
    finally:
        redis_client.config_set("maxmemory", 0)
    assert redis_client.dbsize() == 0


def test_an_empty_topic_is_refused(redis_client: Client) -> None:
    assert isinstance(redis_client, redis.Redis)
    with pytest.raises(Declined, match="plays has no records"):
        planning(until(0)).plan(redis_client, 1_000)
