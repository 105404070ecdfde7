"""What clients choose takes a bounded place: the first values have their own numbers, the rest is counted together."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.keys import LONG, partition_of
from streamstate.processing.decode import RawRecord
from streamstate.profile import profile_app
from streamstate.profile.answer import Moment
from streamstate.profile.file import parse
from streamstate.profile.measure import BadDeclaration
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import HistoryDays
from streamstate.state.redis import RedisStore
from streamstate.state.store import Store
from streamstate.testing import Driver
from tests.reference_profile import answer
from tests.worked_profile import event_json, profile_events

NOW = 1_800_000_000_000
DECLARED = """
name: bounded
topic: events
key: long
path: /v1/users/<key>/bounded
history: 4d
fields: {device: str, artist: {type: int, member: track.artist}, loud: bool, price: decimal(2), ms: int}
measures:
  devices: {count: all, by: device, over: [2d, ever], values: 2}
  spent: {total: price, by: device, over: [2d, ever], values: 1}
  mean: {mean: ms, by: device, over: [2d, ever], values: 2, where: {ms: {ge: 0}}}
  least: {least: ms, by: loud, over: [2d, ever], values: 1}
  most: {most: price, by: device, values: 2}
  artists: {top: 2, of: artist, over: [2d, ever], values: 3}
  few: {top: 2, of: artist, values: 2}
  loudest: {top: 2, of: device, total: ms, values: 2}
  different: {distinct: artist, values: 3}
"""
WORDS = yaml.safe_load(DECLARED)
BOUNDED = parse(DECLARED)
COMPACT = parse("\n".join(line for line in DECLARED.splitlines() if "loudest" not in line))
OVERALL = parse(DECLARED.replace("/v1/users/<key>/bounded", "/v1/bounded"))

moments = st.sampled_from(range(NOW, NOW - 4 * 86_400_000, -43_200_000))
timed = st.builds(lambda event, time: {**event, "timestamp": time}, profile_events, moments)
drawn = st.lists(timed, max_size=25)


def raw_of(event: dict[str, Any]) -> RawRecord:
    return event["offset"], event["timestamp"], LONG.encode(event["key"]), event_json(event)


def driven(app: Any, store: Store, raw: list[RawRecord], size: int, partition: int = 0) -> Driver:
    driver = Driver(app, store, partitions=2)
    for start in range(0, len(raw), size):
        driver.feed(partition, {"events": raw[start : start + size]})
    assert not driver.dead
    return driver


def plain(found: Any) -> Any:
    return None if found is None else json.loads(msgspec.json.encode(found))


@settings(max_examples=100)
@given(events=drawn, size=st.integers(1, 25), at=moments)
@pytest.mark.parametrize("kept", ["memory", "redis"])
def test_the_first_values_keep_their_place_whatever_the_batches(
    kept: str, events: list[dict[str, Any]], size: int, at: int, redis_store: Callable[[], RedisStore]
) -> None:
    numbered = [{**event, "offset": offset} for offset, event in enumerate(events)]
    for declared in (BOUNDED, COMPACT):
        store = MemoryStore() if kept == "memory" else redis_store()
        driver = driven(profile_app(declared), store, [raw_of(event) for event in numbered], size)
        words = {**WORDS, "measures": {name: WORDS["measures"][name] for name in declared.measures}}
        for key in (1, 2):
            of_key = [event for event in numbered if event["key"] == key]
            assert plain(driver.view("bounded", key, Moment(at))) == answer(words, key, of_key, at)


@settings(max_examples=50)
@given(events=drawn, sizes=st.tuples(st.integers(1, 25), st.integers(1, 25)))
def test_over_all_keys_the_bounds_of_partitions_hold_and_nothing_is_lost(
    events: list[dict[str, Any]], sizes: tuple[int, int]
) -> None:
    answers = []
    for size in sizes:
        driver = Driver(profile_app(OVERALL), MemoryStore(), partitions=2)
        for partition in range(2):
            raw = [
                raw_of({**event, "offset": offset})
                for offset, event in enumerate(events)
                if partition_of(LONG.encode(event["key"]), 2) == partition
            ]
            for start in range(0, len(raw), size):
                driver.feed(partition, {"events": raw[start : start + size]})
        answers.append(plain(driver.view("bounded", query=Moment(NOW))))
    assert answers[0] == answers[1]
    found, other = answers[0], answers[0].get("other", {})
    for label, first in (("ever", 0), ("2d", (NOW - 2 * 86_400_000) // 300_000 * 300_000)):
        with_device = [event for event in events if event["device"] is not None and event["timestamp"] >= first]
        assert len(found["devices"][label]) <= 2
        assert sum(found["devices"][label].values()) + other.get("devices", {}).get(label, 0) == len(with_device)
    artists = {event["artist"] for event in events} - {None}
    assert min(len(artists), 3) <= found["different"] <= len(artists)


LONG_TEXT = "x" * 295
MANY = """
name: many
topic: events
key: long
path: /v1/users/<key>/many
fields: {device: str}
measures:
  plays: {count: all, over: [1d, ever]}
  devices: {count: all, by: device, over: [1d, ever]}
  different: {distinct: device, over: [1d, ever]}
rules:
  busy: {when: {plays: {in: [1000, 6000, 8000]}}, over: 1d}
"""


def flooded(store: Store, size: int) -> Driver:
    """A client sends 30,000 devices of 300 bytes within an hour."""
    raw: list[RawRecord] = [
        (n, NOW + 100 * n, LONG.encode(1), json.dumps({"device": f"{n:05d}{LONG_TEXT}"}).encode())
        for n in range(30_000)
    ]
    return driven(profile_app(parse(MANY)), store, raw, size)


@pytest.fixture(scope="module")
def flood() -> Driver:
    return flooded(MemoryStore(), 5_000)


AFTER = Moment(NOW + 3_600_000)


def test_the_answer_to_a_flood_of_devices_is_bounded_and_tells_the_rest(flood: Driver) -> None:
    answered = flood.view("many", 1, AFTER)
    found = plain(answered)
    assert len(msgspec.json.encode(answered)) < 2**20
    assert (found["plays"]["ever"], len(found["devices"]["ever"])) == (30_000, 1_000)
    assert found["other"]["devices"]["ever"] == 29_000
    assert (found["different"]["ever"], "different" in found["other"]) == (30_000, False)
    assert found["plays"]["1d"] + found["windows"]["1d"]["leftOut"] == 30_000
    assert found["plays"]["1d"] == found["different"]["1d"] == found["other"]["devices"]["1d"] + 1_000


@pytest.mark.parametrize("size", [701, 30_000])
def test_a_flood_leaves_the_same_state_after_other_batches_in_redis(
    flood: Driver, size: int, redis_store: Callable[[], RedisStore]
) -> None:
    again = flooded(redis_store(), size)
    assert plain(again.view("many", 1, AFTER)) == plain(flood.view("many", 1, AFTER))
    [(_, days, left_out)] = again.store.read({0: [HistoryDays("events", "1")]})[0].values
    assert max(map(len, days.values())) <= 2 * 2**20
    assert sum(left_out.values()) > 20_000
    # Events that the history leaves out are in no rule's window: the last line is never crossed.
    assert [msgspec.json.decode(emit.value)["value"] for emit in again.emitted] == [1_000, 6_000]
    assert [emit.value for emit in again.emitted] == [emit.value for emit in flood.emitted]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("{count: all, values: 5}", "values is for by, top and distinct"),
        ("{count: all, by: device, values: 10001}", "values is a number from 1 to 10,000"),
        ("{count: all, by: device, values: -1}", "values is a number from 1 to 10,000"),
        ("{top: 5, of: device, values: 4}", "a top has at most so many values"),
    ],
)
def test_a_bound_that_no_measure_has_is_refused(words: str, reason: str) -> None:
    declared = MANY.replace("{count: all, by: device, over: [1d, ever]}", words)
    with pytest.raises(BadDeclaration, match=reason):
        parse(declared)
