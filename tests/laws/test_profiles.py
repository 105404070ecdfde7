"""Every measure of a profile answers as counting all events again, whatever the order, the batches and the moment."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.keys import LONG
from streamstate.profile.answer import Moment
from streamstate.profile.app import profile_app
from streamstate.state.memory import MemoryStore
from streamstate.state.redis import RedisStore
from streamstate.state.store import Store
from streamstate.testing import Driver
from tests.reference_profile import answer
from tests.worked_profile import DECLARED, EVERYTHING, event_json, profile_events

REFERENCE = yaml.safe_load(DECLARED)
APP = profile_app(EVERYTHING)
NOW = 1_800_000_000_000
DAY_MS = 86_400_000

moments = st.integers(NOW - 3 * DAY_MS, NOW) | st.sampled_from([NOW - n * 1_800_000 for n in range(12)])
timed_events = st.builds(lambda event, time: {**event, "timestamp": time}, profile_events, moments)


def driven(store: Store, given_events: list[dict[str, Any]], size: int) -> Driver:
    driver = Driver(APP, store)
    raw = [
        (offset, event["timestamp"], LONG.encode(event["key"]), event_json(event))
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
    given_events=st.lists(timed_events, max_size=25),
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
@given(given_events=st.lists(timed_events, max_size=25), sizes=st.tuples(st.integers(1, 25), st.integers(1, 25)))
def test_the_state_in_redis_does_not_depend_on_the_batches(
    given_events: list[dict[str, Any]], sizes: tuple[int, int], redis_store: Callable[[], RedisStore]
) -> None:
    in_memory = driven(MemoryStore(), given_events, sizes[0]).view("everything", 1, Moment(NOW))
    in_redis = driven(redis_store(), given_events, sizes[1]).view("everything", 1, Moment(NOW))
    assert plain(in_memory) == plain(in_redis)
