"""A user's plays in numbers, and all plays by day and hour."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.metrics.model import APP, instant
from services.metrics.plays import DAY_MS, HOUR_MS, PERIOD_MS, HourOfPlays, Plays, Span
from streamstate.app import LATE
from streamstate.keys import LONG, LONG_MAX
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Fields
from streamstate.testing import Driver
from tests.raw import Play, feed_plays, plain, play_json

# A user's drawn in numbers, against a naive recount.

ids = st.integers(0, 15) | st.sampled_from([9, 10, 99, 100, 2**53 + 1, LONG_MAX])
users = st.integers(0, 2)
drawn = st.lists(st.tuples(users, ids, ids, ids, st.integers(0, 10**13)), max_size=80)


def driver() -> Driver:
    return Driver(APP, MemoryStore(), 3)


def profile(of: Driver, user: int) -> Any:
    return plain(of.view("metrics", user))


def top(counts: Counter[int]) -> list[dict[str, int]]:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]
    return [{"id": item, "countPlays": count} for item, count in ranked]


def recount(played: list[Play], user: int) -> Any:
    mine = [play for play in played if play[0] == user]
    if not mine:
        return None
    return {
        "userId": user,
        "eventCount": len(mine),
        "firstListeningEvent": instant(min(play[4] for play in mine)),
        "lastListeningEvent": instant(max(play[4] for play in mine)),
        "topTenArtists": top(Counter(play[1] for play in mine)),
        "topTenAlbums": top(Counter(play[2] for play in mine)),
        "topTenTracks": top(Counter(play[3] for play in mine)),
    }


@settings(max_examples=100)
@given(drawn, drawn)
def test_a_profile_is_the_recount(first: list[Play], later: list[Play]) -> None:
    store = driver()
    feed_plays(store, first)
    feed_plays(store, later)
    for user in range(4):
        assert profile(store, user) == recount(first + later, user)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (1_700_000_000_120, "2023-11-14T22:13:20.120Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_instants_are_iso_8601_in_utc(milliseconds: int, text: str) -> None:
    assert instant(milliseconds) == text


# All plays by day and hour, counted by hand.

START = 600 * PERIOD_MS


def played(driver: Driver, *times: int, partition: int = 0) -> None:
    """A play at each Kafka timestamp, one micro-batch. The moment in the play itself does not count here."""
    first = driver.store.read({partition: []})[partition].positions.get("listening-events", 0)
    play = play_json((7, 1, 2, 3, 4))
    records = [(first + number, time, LONG.encode(7), play) for number, time in enumerate(times)]
    driver.feed(partition, {"listening-events": records})


def plays(driver: Driver, **span: int) -> Plays:
    answer = driver.view("plays", query=Span(**span))
    assert isinstance(answer, Plays)
    return answer


def test_an_unusual_hour_shows_beside_what_is_usual() -> None:
    driver = Driver(APP, MemoryStore())
    for day in range(5):
        played(driver, *[START + day * DAY_MS] * (90 if day == 3 else 10))
    shown = [(hour.count, hour.usual) for hour in plays(driver).hours if hour.start % DAY_MS == 0]
    assert shown == [(10, 10), (10, 10), (10, 10), (90, 10), (10, 10)]


def test_hours_are_kept_for_one_period_at_least_and_two_at_most() -> None:
    driver = Driver(APP, MemoryStore())
    played(driver, START)
    played(driver, START + 2 * PERIOD_MS - 1, START, START - 1)
    assert [hour.count for hour in plays(driver).hours if hour.count] == [2, 1]
    played(driver, START + 2 * PERIOD_MS, START)
    last = START + 2 * PERIOD_MS
    answer = plays(driver)
    assert answer.count == 6
    assert [(hour.start, hour.count) for hour in answer.hours] == [(last - HOUR_MS, 1), (last, 1)]
    assert driver.store.read({0: []})[0].counters == {LATE: 2}


def test_a_time_without_plays_leaves_nothing_of_older_periods() -> None:
    driver = Driver(APP, MemoryStore())
    played(driver, START - 1, START)
    played(driver, START + 7 * PERIOD_MS)
    assert plays(driver).hours == [HourOfPlays(START + 7 * PERIOD_MS, 1, 1)]
    assert driver.store.read({0: [Fields("plays:0"), Fields("plays:1")]})[0].values.count({}) == 1
