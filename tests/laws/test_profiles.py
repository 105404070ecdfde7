"""Every measure of a profile answers as counting all events again, whatever the order, the batches and the moment."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.keys import LONG
from streamstate.profile.answer import Moment
from streamstate.profile.app import profile_app
from streamstate.profile.file import parse
from streamstate.state.memory import MemoryStore
from streamstate.state.redis import RedisStore
from streamstate.state.store import Store
from streamstate.testing import Driver
from tests.reference_profile import answer

DECLARED = """
name: everything
topic: events
key: long
path: /v1/users/<key>/everything
history: 4d
fields: {device: str, artist: int, loud: bool, price: decimal(2), ms: int}
measures:
  plays: {count: all, over: [1h, 2d, 3d, ever]}
  priced: {count: price}
  devices: {count: all, by: device, over: [2d, ever]}
  loudness: {total: ms, by: loud, over: [1h, ever]}
  spent: {total: price, over: [ever, 2d]}
  long: {total: ms, where: {ms: {ge: 0}}, over: 2d}
  least: {least: ms, over: [2d, ever]}
  most: {most: price, by: device, over: [2d, ever]}
  mean: {mean: ms, over: [3d, ever]}
  costs: {mean: price, by: device}
  firstSeen: {first: timestamp, over: [1h, ever]}
  lastSeen: {last: timestamp}
  firstDevice: {first: device, over: [2d, ever]}
  lastPrice: {last: price, where: {device: {ne: tv}}, over: [2d, ever]}
  artists: {top: 3, of: artist, over: [2d, ever]}
  others: {top: 2, of: artist}
  loudest: {top: 2, of: device, total: ms, over: [2d, ever]}
  listened: {top: 4, of: price, where: {any: [{loud: {eq: true}}, {artist: {in: [1, -3]}}]}, over: [ever, 2d]}
  different: {distinct: artist, over: [1h, ever]}
  quiet: {distinct: device, where: {loud: {eq: false}, all: [{ms: {lt: 3}}]}, over: [2d]}
  latest: {recent: 3, of: device, over: [1h, ever]}
  sittings: {sessions: 30m, over: [2d, 3d]}
"""
REFERENCE = yaml.safe_load(DECLARED)
APP = profile_app(parse(DECLARED))
NOW = 1_800_000_000_000
DAY_MS = 86_400_000

moments = st.integers(NOW - 3 * DAY_MS, NOW) | st.sampled_from([NOW - n * 1_800_000 for n in range(12)])
absent = st.none()
events = st.fixed_dictionaries(
    {
        "key": st.integers(1, 2),
        "timestamp": moments,
        "device": absent | st.sampled_from(["phone", "tv", "é", "", "a b"]),
        "artist": absent | st.integers(-3, 12) | st.sampled_from([2**63 - 1, -(2**63)]),
        "loud": absent | st.booleans(),
        "price": absent | st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100),
        "ms": absent | st.integers(-5, 5),
    }
)


def value(event: dict[str, Any]) -> bytes:
    members = {name: float(of) if isinstance(of, Decimal) else of for name, of in event.items() if name != "key"}
    return json.dumps({name: of for name, of in members.items() if of is not None or len(name) > 4}).encode()


def driven(store: Store, given_events: list[dict[str, Any]], size: int) -> Driver:
    driver = Driver(APP, store)
    raw = [
        (offset, event["timestamp"], LONG.encode(event["key"]), value(event))
        for offset, event in enumerate(given_events)
    ]
    for start in range(0, len(raw), size):
        driver.feed(0, {"events": raw[start : start + size]})
    assert not driver.dead
    return driver


def plain(found: Any) -> Any:
    return None if found is None else json.loads(msgspec.json.encode(found))


@settings(max_examples=150)
@given(
    given_events=st.lists(events, max_size=25),
    size=st.integers(1, 25),
    at=st.lists(moments, min_size=1, max_size=4),
)
def test_an_answer_is_the_count_of_all_events(given_events: list[dict[str, Any]], size: int, at: list[int]) -> None:
    driver = driven(MemoryStore(), given_events, size)
    numbered = [{**event, "offset": offset} for offset, event in enumerate(given_events)]
    for key in (1, 2):
        for moment in at:
            expected = answer(REFERENCE, key, [event for event in numbered if event["key"] == key], moment)
            assert plain(driver.view("everything", key, Moment(moment))) == expected


@settings(max_examples=30)
@given(given_events=st.lists(events, max_size=25), sizes=st.tuples(st.integers(1, 25), st.integers(1, 25)))
def test_the_state_in_redis_does_not_depend_on_the_batches(
    given_events: list[dict[str, Any]], sizes: tuple[int, int], redis_store: Callable[[], RedisStore]
) -> None:
    in_memory = driven(MemoryStore(), given_events, sizes[0]).view("everything", 1, Moment(NOW))
    in_redis = driven(redis_store(), given_events, sizes[1]).view("everything", 1, Moment(NOW))
    assert plain(in_memory) == plain(in_redis)
