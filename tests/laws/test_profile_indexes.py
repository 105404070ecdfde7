"""Keys are found by their values as by asking all keys: whatever the order, the batches, the moment and the pages."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.errors import BadParameter
from streamstate.keys import LONG, partition_of
from streamstate.profile import profile_app
from streamstate.profile.file import parse
from streamstate.profile.indexes import walk
from streamstate.profile.indexes.views import CountKeys, FindKeys
from streamstate.state.memory import MemoryStore
from streamstate.state.redis import RedisStore
from streamstate.state.store import Store
from streamstate.testing import Driver
from tests.laws.test_erasure_laws import World
from tests.reference_profile import answer
from tests.worked_profile import event_json, profile_events

PARTITIONS = 2
NOW, HOUR_MS, DAY_MS = 1_800_000_000_000, 3_600_000, 86_400_000
DECLARED = """
name: found
topic: events
key: long
path: /v1/users/<key>/found
fields: {device: str, artist: {type: int, member: track.artist}, loud: bool, price: decimal(2), ms: int}
measures:
  plays: {count: all, over: [1h, 2d, ever], index: true}
  priced: {count: price, index: true}
  spent: {total: price, over: [ever, 2d], index: true}
  quiet: {total: ms, where: {loud: {eq: false}}, over: 1h, index: true}
  artists: {top: 3, of: artist, over: 2d}
"""
REFERENCE = yaml.safe_load(DECLARED)
APP = profile_app(parse(DECLARED))
EVER, TRAILING = ("plays_ever", "priced", "spent_ever"), ("plays_1h", "plays_2d", "spent_2d", "quiet")
WORDS: dict[str, Callable[[Any, Any], Any]] = {
    **{word: getattr(operator, word) for word in ("eq", "ne", "lt", "le", "gt", "ge")},
    "in": lambda value, wanted: value in (wanted, wanted + 2),
}

moments = st.integers(NOW - 3 * DAY_MS, NOW) | st.integers(0, 12).map(lambda half: NOW - half * HOUR_MS // 2)
events = st.builds(
    lambda event, time, key: {**event, "timestamp": time, "key": key}, profile_events, moments, st.integers(0, 5)
)
wheres = st.lists(
    st.tuples(st.sampled_from(EVER), st.sampled_from(sorted(WORDS)), st.integers(-2, 4))
    | st.tuples(st.sampled_from(TRAILING), st.just("ge"), st.integers(1, 4))
    | st.tuples(st.sampled_from(TRAILING), st.just("gt"), st.integers(0, 3)),
    min_size=1,
    max_size=3,
)
Where = tuple[str, str, int]


def text(where: Where) -> str:
    name, word, number = where
    return f"{name}.{word}.{number},{number + 2}" if word == "in" else f"{name}.{word}.{number}"


class Fed:
    """The app over events, fed in batches."""

    def __init__(self, store: Store, given_events: list[dict[str, Any]], size: int) -> None:
        self.driver = Driver(APP, store, PARTITIONS)
        self.events: list[dict[str, Any]] = []
        self.feed(given_events, size)

    def feed(self, given_events: list[dict[str, Any]], size: int) -> None:
        for start in range(0, len(given_events), size):
            batch = [{**event, "offset": len(self.events) + n} for n, event in enumerate(given_events[start:][:size])]
            self.events += batch
            for partition in range(PARTITIONS):
                raw = [
                    (each["offset"], each["timestamp"], LONG.encode(each["key"]), event_json(each)) for each in batch
                ]
                mine = [record for record in raw if partition_of(record[2], PARTITIONS) == partition]
                self.driver.feed(partition, {"events": mine})

    def expected(self, where: list[Where], at: int) -> set[int]:
        """The matching keys, by the answers of all keys."""
        return {key for key in {event["key"] for event in self.events} if all(self._holds(key, of, at) for of in where)}

    def _holds(self, key: int, where: Where, at: int) -> bool:
        name, word, number = where
        found = answer(REFERENCE, key, [event for event in self.events if event["key"] == key], at)
        assert found is not None
        measure, _, label = name.partition("_")
        return bool(WORDS[word](found[measure][label] if label else found[measure], number))

    def page(self, where: list[Where], at: int, limit: int, cursor: str) -> Any:
        return self.driver.view("found-find", query=FindKeys(tuple(map(text, where)), limit, cursor, at))

    def pages(self, where: list[Where], at: int, limit: int) -> Iterator[list[int]]:
        cursor: str | None = ""
        while cursor is not None:
            page = self.page(where, at, limit, cursor)
            assert len(page.keys) <= limit
            yield page.keys
            cursor = page.cursor

    def number(self, where: list[Where], at: int) -> Any:
        return self.driver.view("found-count", query=CountKeys(tuple(map(text, where)), at))

    @property
    def latest(self) -> int:
        return max((event["timestamp"] for event in self.events), default=NOW)


@settings(max_examples=150)
@given(
    given_events=st.lists(events, max_size=30),
    size=st.integers(1, 30),
    where=wheres,
    later=st.integers(-HOUR_MS, 2 * DAY_MS) | st.just(0),
    limit=st.integers(1, 4),
)
def test_the_found_keys_are_those_whose_answers_match(
    given_events: list[dict[str, Any]], size: int, where: list[Where], later: int, limit: int
) -> None:
    fed = Fed(MemoryStore(), given_events, size)
    at = fed.latest + later
    expected = fed.expected(where, at)
    found = [key for keys in fed.pages(where, at, limit) for key in keys]
    assert (sorted(found), len(found)) == (sorted(expected), len(expected))
    number = fed.number(where, at)
    assert (number.count, number.exact) == (len(expected), True)


@settings(max_examples=20)
@given(given_events=st.lists(events, max_size=30), size=st.integers(1, 30), where=wheres)
def test_redis_finds_the_same_keys(
    given_events: list[dict[str, Any]], size: int, where: list[Where], redis_store: Callable[[], RedisStore]
) -> None:
    fed = Fed(redis_store(), given_events, size)
    found = [key for keys in fed.pages(where, fed.latest, 2) for key in keys]
    assert sorted(found) == sorted(fed.expected(where, fed.latest))
    assert fed.number(where, fed.latest).count == len(found)


@settings(max_examples=150)
@given(
    batches=st.lists(st.lists(events, min_size=1, max_size=8), min_size=1, max_size=8),
    where=wheres,
    compared=st.integers(1, 3),
)
def test_a_key_that_matches_during_a_walk_is_in_one_of_its_pages(
    batches: list[list[dict[str, Any]]], where: list[Where], compared: int
) -> None:
    """Events come between the pages, and a page compares few candidates."""
    fed, more = Fed(MemoryStore(), batches[0], 8), iter(batches[1:])
    always, found = fed.expected(where, fed.latest), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "MOST_COMPARED", compared)
        cursor: str | None = ""
        while cursor is not None:
            page = fed.page(where, fed.latest, 2, cursor)
            matching = fed.expected(where, fed.latest)
            assert set(page.keys) <= matching
            always &= matching
            found += page.keys
            cursor = page.cursor
            fed.feed(next(more, []), 8)
    assert len(found) == len({*found})
    assert always <= {*found}


@settings(max_examples=100)
@given(acts=st.lists(st.tuples(events, st.sampled_from(["", "fold", "request", "begin", "lose"])), max_size=25))
def test_a_deleted_user_is_in_no_index(acts: list[tuple[dict[str, Any], str]]) -> None:
    """Periods expire, and a build from nothing makes the same state."""
    world = World(APP)
    for event, act in acts:
        world.produce("events", (LONG.encode(event["key"]), event_json(event)), event["timestamp"])
        if act == "fold":
            world.fold()
        elif act == "request":
            world.request(str(event["key"]))
        elif act:
            world.begin(MemoryStore() if act == "lose" else world.driver.store)
    world.begin(world.driver.store)
    world.fold()
    state, users = world.state, {key.partition(":")[2] for key in world.state if key.startswith("numbers:")}
    indexed = {user for key, held in state.items() if key.startswith("index:") for user in held}
    assert indexed == users
    world.begin(MemoryStore())
    world.fold()
    assert world.state == state


def test_the_size_of_more_candidates_than_are_compared_is_a_lower_bound() -> None:
    plays = [{"key": key, "timestamp": NOW, "loud": None, "artist": None} for key in range(9)]
    fed = Fed(MemoryStore(), plays, 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "MOST_COMPARED", 4)
        number = fed.number([("plays_2d", "ge", 1)], NOW)
        assert (number.exact, 4 <= number.count < 9) == (False, True)
        assert fed.number([("plays_ever", "ge", 1)], NOW).count == 9


def test_only_the_periods_of_present_windows_are_kept() -> None:
    store, times = MemoryStore(), [NOW + hours * HOUR_MS for hours in range(0, 40 * 24, 7)]
    plays = [{"key": 1, "timestamp": time, "loud": None, "artist": None} for time in times]
    fed = Fed(store, plays, 5)
    partition = partition_of(LONG.encode(1), PARTITIONS)
    stored = [key for key in store.keys(partition) if key.startswith("index:plays_2d/")]
    assert 1 <= len(stored) <= 3
    with pytest.raises(BadParameter, match=f"at: the earliest moment is {times[-1] - HOUR_MS}"):
        fed.number([("plays_2d", "ge", 1)], times[-1] - HOUR_MS - 1)
    assert fed.number([("plays_ever", "ge", 1)], 0).count == 1


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "there is no index ; did you mean "),
        ("plays_3d.ge.1", "there is no index plays_3d; did you mean plays_2d?"),
        ("artists.ge.1", "There are plays_1h, plays_2d, plays_ever, priced, spent_ever, spent_2d, quiet"),
        ("plays_2d", "compare plays_2d by eq, ne, lt, le, gt, ge, in, such as plays_2d.ge.100"),
        ("plays_2d.like.1", "compare plays_2d by eq"),
        ("plays_2d.lt.1", "plays_2d is over a window: compare by ge with a number above 0, or gt; others need ever"),
        ("plays_2d.ge.0", "compare by ge with a number above 0"),
        ("plays_ever.ge.", "compared with a whole number, up to 2^53; found ''"),
        ("plays_ever.ge.1.5", "compared with a whole number, up to 2^53; found '1.5'"),
        ("plays_ever.ge.1_000", "found '1_000'"),
        ("plays_ever.ge.\uff11", "compared with a whole number"),
        ("plays_ever.ge.9007199254740993", "up to 2^53"),
        ("spent_ever.ge.0.123", "a number with up to 2 decimals, up to 2^53; found '0.123'"),
        (f"plays_ever.in.{',1' * 101}", "in has up to 100 values"),
    ],
)
def test_a_bad_comparison_is_refused(where: str, reason: str) -> None:
    fed = Fed(MemoryStore(), [], 1)
    for query in (FindKeys((where,)), CountKeys((where,))):
        with pytest.raises(BadParameter) as raised:
            fed.driver.view("found-find" if isinstance(query, FindKeys) else "found-count", query=query)
        assert str(raised.value).startswith("where: ")
        assert reason in str(raised.value)


@pytest.mark.parametrize("cursor", ["x", "é", "WzIsMCwx", "WzMsMCwiIl0", "WzIsOTk5LCIiXQ", "bnVsbA", "!!!!"])
def test_a_bad_cursor_is_refused(cursor: str) -> None:
    fed = Fed(MemoryStore(), [], 1)
    with pytest.raises(BadParameter, match="cursor: this is no cursor of the present state; begin anew"):
        fed.page([("plays_ever", "ge", 1)], NOW, 1, cursor)


def test_a_comparison_of_too_many_keys_is_refused() -> None:
    plays = [{"key": key, "timestamp": NOW, "loud": None, "artist": None} for key in range(300)]
    fed = Fed(MemoryStore(), plays, 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "MOST_OF_SHARD", 2)
        with pytest.raises(BadParameter, match="let a more selective comparison be the first"):
            fed.page([("plays_ever", "ge", 1)], NOW, 1, "")
        assert fed.number([("plays_ever", "ge", 1)], NOW).count == 300
