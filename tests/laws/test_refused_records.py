"""A record that a fold refuses leaves the state as if it had not been there: its time, too."""

import json
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Record
from streamstate.functions import HoppingWindows, State, fold, source
from streamstate.keys import LONG
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.state.memory import MemoryStore
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import Client
from streamstate.testing import Driver
from streamstate.verify.keys import KeyCheck
from streamstate.verify.partition import PartitionReplay
from streamstate.verify.redis_state import RedisState
from tests.in_memory_history import inputs, message

HOUR_MS = 3_600_000
START = 1_800_000_000_000
INDEXED = """
name: found
topic: events
key: long
path: /v1/users/<key>/found
fields: {ms: int}
measures:
  plays: {count: all, over: 1h, index: true}
  last: {recent: 2, of: ms, over: 2h}
  total: {total: ms}
rules:
  often: {when: {plays: {ge: 2}}}
"""
OVERALL = """
name: overall
topic: events
key: long
path: /v1/overall
fields: {ms: int}
measures:
  plays: {count: all, over: 1d}
  total: {total: ms}
"""


class Event(msgspec.Struct):
    """A value of the topic."""

    ms: int


EVENTS = source("events", Event, key=LONG)


class Sums(State, by=EVENTS):
    windows = HoppingWindows(size=HOUR_MS, advance=HOUR_MS, retention=3 * HOUR_MS)


@fold(EVENTS)
def sums(record: Record[int, Event], state: Sums) -> None:
    if record.value.ms >= 2**53:
        raise ValueError
    state.windows.add(record, record.value.ms)


APPS = {
    "index": profile_app(parse(INDEXED)),
    "slots": profile_app(parse(OVERALL)),
    "windows": App("windows", (sums,)),
}
Drawn = tuple[int, int, int]
"""Key, hours since the start, and number of an event."""
Raw = tuple[int, int, bytes, bytes]

events = st.tuples(st.integers(1, 2), st.integers(0, 96), st.sampled_from([1, 5, 2**60]))


def raw_records(drawn: list[Drawn]) -> list[Raw]:
    return [
        (offset, START + hours * HOUR_MS, LONG.encode(key), json.dumps({"ms": ms}).encode())
        for offset, (key, hours, ms) in enumerate(drawn)
    ]


def folded(app: App, raw: list[Raw], size: int) -> Driver:
    driver = Driver(app, MemoryStore())
    for start in range(0, len(raw), size):
        driver.feed(0, {"events": raw[start : start + size]})
    return driver


@pytest.mark.parametrize("name", APPS)
@given(drawn=st.lists(events, min_size=1, max_size=12), size=st.integers(1, 12))
def test_a_refused_record_moves_nothing(name: str, drawn: list[Drawn], size: int) -> None:
    raw = raw_records(drawn)
    driver = folded(APPS[name], raw, size)
    refused = {letter.offset for letter in driver.dead}
    assert refused == {offset for offset, (_, _, ms) in enumerate(drawn) if ms == 2**60}
    without = folded(APPS[name], [record for record in raw if record[0] not in refused], 1)
    assert isinstance(driver.store, MemoryStore)
    assert isinstance(without.store, MemoryStore)
    assert driver.store.keys(0) == without.store.keys(0)
    times, expected = (store.read({0: ()})[0].times for store in (driver.store, without.store))
    assert times.get("events", 0) == expected.get("events", 0)


def test_a_replay_has_the_time_of_the_stream(redis_client: Client, redis_name: Callable[[], str]) -> None:
    raw = raw_records([(1, 0, 5), (2, 9, 2**60), (2, 1, 5)])
    app = replace(APPS["index"], name=redis_name())
    store = RedisStore(redis_client, app.name)
    Driver(app, store).feed(0, {"events": raw})
    given = inputs(app, [message("events", 0, record) for record in raw])
    with PartitionReplay(given, 0, {}, None, lambda _records: None) as replay:
        assert KeyCheck(store, RedisState(redis_client, app.name), 0, replay).run() == []
