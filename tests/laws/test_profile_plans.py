"""A plan is within a fifth of the memory that the whole state takes in Redis, and leaves nothing there."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.cli.profiles.plan import Planning
from streamstate.cli.profiles.scratch import TrialState
from streamstate.errors import Declined
from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.profile import profile_app
from streamstate.profile.declaration import Declaration
from streamstate.profile.file import parse
from streamstate.profile.measure import BadDeclaration
from streamstate.state.memory import MemoryStore
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.state.redis_reads import tag
from streamstate.state.store import Commit, OffsetAdvance, Store
from streamstate.testing import Driver
from streamstate.verify.keys import KeyCheck
from streamstate.verify.partition import PartitionReplay
from streamstate.verify.redis_state import RedisState
from tests.in_memory_history import inputs, message
from tests.raw import plain

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
    assert plan.bytes_together == pytest.approx(used, rel=WITHIN)
    assert plan.records == EVENTS
    assert plan.keys == len({record[2] for held in plays().values() for record in held})
    assert (plan.sampled == EVENTS) == (records == EVENTS)
    assert plan.sampled <= 1.2 * records
    assert plan.redis_us > 0 < plan.python_us
    assert plan.kept_days == DAYS == pytest.approx(plan.span_days, rel=0.01)
    assert redis_client.dbsize() == 0


def test_over_all_keys_a_partition_stands_for_all(redis_client: Client) -> None:
    assert isinstance(redis_client, redis.Redis)
    whole, part = (planning(plays(), EVERYWHERE).plan(redis_client, records) for records in (EVENTS, 5_000))
    assert whole.sampled == EVENTS > 2 * part.sampled
    assert part.bytes_together == pytest.approx(whole.bytes_together, rel=WITHIN)
    assert part.window_bytes == 0


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
    RedisStore(redis_client, "habits.plan").claim(0, "killed", {})
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


# A profile with compact rankings answers, is verified, exported and deleted as any other.

TEXT = """
name: tracks
topic: plays
key: long
path: /v1/users/<key>/tracks
compact: true
fields: {track: int, tag: str}
measures:
  tracks: {top: 10, of: track}
  liked: {top: 64, of: track, where: {track: {lt: 140}}}
  different: {distinct: track}
  tags: {distinct: tag}
"""
DECLARED = parse(TEXT)
TRACKS = profile_app(DECLARED)
Plays = list[tuple[int, int, bytes, bytes]]


def plays_of(seed: int, count: int, members: int) -> Plays:
    """Of two users: frequent and rare tracks, with many ties."""
    rare = random.Random(seed)
    tracks = [int(members ** rare.random()) if rare.random() < 0.5 else rare.randrange(members) for _ in range(count)]
    key = [LONG.encode(1 if rare.random() < 0.9 else 2) for _ in tracks]
    values = [json.dumps({"track": track, "tag": chr(track % 99 + 33)}).encode() for track in tracks]
    return [(offset, offset, key[offset], value) for offset, value in enumerate(values)]


def fed(app_name: str, store: Store, raw: Plays, sizes: list[int]) -> Driver:
    driver, start = Driver(replace(TRACKS, name=app_name), store), 0
    while start < len(raw):
        size = sizes[start % len(sizes)]
        driver.feed(0, {"plays": raw[start : start + size]})
        start += size
    assert not driver.dead
    return driver


def expected(raw: Plays, user: int) -> Mapping[str, Any]:
    values = [json.loads(value) for _, _, key, value in raw if LONG.decode(key) == user]
    counts = Counter(value["track"] for value in values)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = [{"value": track, "count": number} for track, number in ranked]
    return {
        "key": user,
        "tracks": listed[:10],
        "liked": [each for each in listed if each["value"] < 140][:64],
        "different": len(counts),
        "tags": len({value["tag"] for value in values}),
    }


sizes = st.lists(st.integers(1, 5) | st.integers(100, 4_000), min_size=1, max_size=5)


@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    members=st.sampled_from([100, 150, 3_000, 20_000]),
    in_memory=sizes,
    in_redis=sizes,
)
def test_a_compact_profile_is_the_count_of_all_events(
    seed: int,
    members: int,
    in_memory: list[int],
    in_redis: list[int],
    redis_client: Client,
    redis_name: Callable[[], str],
) -> None:
    name, raw = redis_name(), plays_of(seed, 4_000, members)
    memory, store = MemoryStore(), RedisStore(redis_client, name)
    drivers = fed(name, memory, raw, in_memory), fed(name, store, raw, in_redis)
    for user, driver in ((user, driver) for user in (1, 2) for driver in drivers):
        assert plain(driver.view("tracks", user)) == expected(raw, user)
    users = TRACKS.folds[0].users
    assert users
    exports = [place.read for place in users.places(1)]
    held, exported = (each.read({0: exports})[0].values for each in (memory, store))
    assert held == exported

    state = RedisState(redis_client, name)
    keys = sorted(state.keys(0))
    of_plays = inputs(replace(TRACKS, name=name), [message("plays", 0, record) for record in raw])
    with PartitionReplay(of_plays, 0, {}, None, lambda _records: None) as replay:
        check = KeyCheck(store, state, 0, replay)
        assert check.run() == []
        for key in keys:
            full = f"{tag(name, 0)}:{key}"
            if redis_client.type(full) == b"hash":
                redis_client.hincrby(full, redis_client.hkeys(full)[0], 1)
            else:
                redis_client.zincrby(full, 1, redis_client.zrange(full, 0, 0)[0])  # type: ignore[arg-type]
        assert {str(each).partition(": ")[0].rpartition(":")[2] for each in check.run()} == {"1", "2"}
    claim = store.claim(0, "a:1", {})
    store.commit(Commit(claim, [OffsetAdvance("plays", len(raw), len(raw) + 1)], [*users.forget([1], ())]))
    assert {key for key in state.keys(0) if key.endswith(":1")} == set()
    assert [key for key in state.keys(0) if key.endswith(":2")]


def test_the_top_ten_of_ten_thousand_tracks_is_exact(redis_store: Callable[[], RedisStore]) -> None:
    raw = plays_of(1, 30_000, 12_000)
    driver = fed("tracks", redis_store(), raw, [1_000])
    answer = expected(raw, 1)
    assert answer["different"] > 9_000
    assert plain(driver.view("tracks", 1)) == answer


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ("top: 64", "top: 65", ("measures", "liked", "top")),
        ("{top: 10, of: track}", "{top: 10, of: track, total: track}", ("measures", "tracks", "total")),
        ("/<key>", "", ("compact",)),
    ],
)
def test_rankings_that_cannot_be_compact(before: str, after: str, path: tuple[str, ...]) -> None:
    with pytest.raises(BadDeclaration) as refused:
        parse(TEXT.replace(before, after))
    assert refused.value.path == path
