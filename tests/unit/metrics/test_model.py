"""A user's plays in numbers, and all plays by day and hour."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.metrics.model import APP, PlayCount, instant, metrics
from streamstate.app import LATE
from streamstate.keys import LONG, LONG_MAX
from streamstate.profile.answer import Periods
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

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
START = 20_000 * DAY_MS


def played(driver: Driver, *times: int, partition: int = 0) -> None:
    """A play at each Kafka timestamp, one micro-batch. The moment in the play itself does not count here."""
    first = driver.store.read({partition: []})[partition].positions.get("listening-events", 0)
    play = play_json((7, 1, 2, 3, 4))
    records = [(first + number, time, LONG.encode(7), play) for number, time in enumerate(times)]
    driver.feed(partition, {"listening-events": records})


def plays(driver: Driver, at: int, **span: int) -> Any:
    return plain(driver.view("plays", query=Periods(at=at, **span)))


def test_an_unusual_hour_shows_beside_what_is_usual() -> None:
    driver = Driver(APP, MemoryStore(), 2)
    for day in range(5):
        played(driver, *[START + day * DAY_MS] * (90 if day == 3 else 10), partition=day % 2)
    answer = plays(driver, START + 5 * DAY_MS)
    shown = [(hour["count"], hour["usual"]) for hour in answer["hours"] if hour["start"] % DAY_MS == 0]
    assert shown == [(10, 10), (10, 10), (10, 10), (90, 10), (10, 10)]
    assert [(day["start"], day["count"], day["usual"]) for day in answer["days"]] == [
        (START + day * DAY_MS, 90 if day == 3 else 10, 10) for day in range(5)
    ]
    assert (answer["count"], len(answer["hours"])) == (130, 4 * 24 + 1)


def test_hours_and_days_from_and_to_a_moment_have_the_usual_numbers_of_all_days() -> None:
    driver = Driver(APP, MemoryStore())
    played(driver, START, START, START + DAY_MS, START + DAY_MS + HOUR_MS)
    answer = plays(driver, START + 2 * DAY_MS, from_=START + DAY_MS, to=START + DAY_MS + HOUR_MS)
    assert answer["hours"] == [{"start": START + DAY_MS, "count": 1, "usual": 1.5}]
    assert answer["days"] == [{"start": START + DAY_MS, "count": 2, "usual": 2}]
    assert answer["count"] == 4


def test_hours_end_after_32_days_and_a_play_older_than_39_is_late() -> None:
    driver = Driver(APP, MemoryStore())
    last = START + 40 * DAY_MS
    played(driver, START, last, START, last - 33 * DAY_MS, last - 32 * DAY_MS)
    answer = plays(driver, last)
    assert [hour["start"] for hour in answer["hours"] if hour["count"]] == [last - 32 * DAY_MS, last]
    assert answer["count"] == 5
    assert driver.store.read({0: []})[0].counters == {LATE: 1}
    days = [Fields(f"slots:{day}") for day in (20_000, 20_007, 20_008, 20_040)]
    assert [bool(fields) for fields in driver.store.read({0: days})[0].values] == [False, True, True, True]


def test_plays_of_further_tracks_are_told() -> None:
    found: dict[str, Any] = {
        "count": 3,
        "first": 1,
        "last": 2,
        "artists": [],
        "albums": [],
        "tracks": [(7, 1)],
        "other.tracks": 2,
    }
    answered = metrics(1, {name: {"ever": value} for name, value in found.items()}, {})
    assert (answered.top_ten_tracks, answered.other_plays) == ([PlayCount(7, 1)], {"tracks": 2})
