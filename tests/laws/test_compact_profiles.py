"""A profile with compact rankings answers, is verified, exported and deleted as any other."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.keys import LONG
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.profile.measure import BadDeclaration
from streamstate.state.memory import MemoryStore
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.state.store import Commit, OffsetAdvance, Store
from streamstate.testing import Driver
from streamstate.verify.profiles import recounted
from streamstate.verify.redis_state import RedisState
from streamstate.verify.replay import replayed
from tests.raw import plain

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
APP = profile_app(DECLARED)
Plays = list[tuple[int, int, bytes, bytes]]


def plays(seed: int, count: int, members: int) -> Plays:
    """Of two users: frequent and rare tracks, with many ties."""
    rare = random.Random(seed)
    tracks = [int(members ** rare.random()) if rare.random() < 0.5 else rare.randrange(members) for _ in range(count)]
    key = [LONG.encode(1 if rare.random() < 0.9 else 2) for _ in tracks]
    values = [json.dumps({"track": track, "tag": chr(track % 99 + 33)}).encode() for track in tracks]
    return [(offset, offset, key[offset], value) for offset, value in enumerate(values)]


def fed(app_name: str, store: Store, raw: Plays, sizes: list[int]) -> Driver:
    driver, start = Driver(replace(APP, name=app_name), store), 0
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


@settings(max_examples=8, deadline=None)
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
    name, raw = redis_name(), plays(seed, 6_000, members)
    memory, store = MemoryStore(), RedisStore(redis_client, name)
    drivers = fed(name, memory, raw, in_memory), fed(name, store, raw, in_redis)
    for user, driver in ((user, driver) for user in (1, 2) for driver in drivers):
        assert plain(driver.view("tracks", user)) == expected(raw, user)
    state = RedisState(redis_client, name)
    keys = sorted(state.keys(0))
    for made in (recounted(DECLARED).make(), replayed(APP).make()):
        for offset, time, key, value in raw:
            message = Message(topic="plays", partition=0, offset=offset, key=key, value=value, timestamp=(1, time))
            made.add(message, time)
        assert keys == sorted(made.expected_keys())
        assert {made.wrong(key, of) for key, of in zip(keys, state.read(0, keys).values, strict=True)} == {None}
        assert all(made.wrong(key, {b"x": b"1"}) for key in keys)

    users = APP.folds[0].users
    assert users
    exports = [place.read for place in users.places(1)]
    held, exported = (each.read({0: exports})[0].values for each in (memory, store))
    assert held == exported
    claim = store.claim(0, "a:1", {})
    store.commit(Commit(claim, [OffsetAdvance("plays", len(raw), len(raw) + 1)], [*users.forget([1], ())]))
    assert {key for key in state.keys(0) if key.endswith(":1")} == set()
    assert [key for key in state.keys(0) if key.endswith(":2")]


def test_the_top_ten_of_ten_thousand_tracks_is_exact(redis_store: Callable[[], RedisStore]) -> None:
    raw = plays(1, 30_000, 12_000)
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
