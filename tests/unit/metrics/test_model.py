"""A user's plays in numbers, against a naive recount."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.metrics.model import APP, instant
from streamstate.keys import LONG_MAX
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.raw import Play, feed_plays, plain

ids = st.integers(0, 15) | st.sampled_from([9, 10, 99, 100, 2**53 + 1, LONG_MAX])
users = st.integers(0, 2)
plays = st.lists(st.tuples(users, ids, ids, ids, st.integers(0, 10**13)), max_size=80)


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
@given(plays, plays)
def test_a_profile_is_the_recount(first: list[Play], later: list[Play]) -> None:
    store = driver()
    feed_plays(store, first)
    feed_plays(store, later)
    for user in range(4):
        assert profile(store, user) == recount(first + later, user)


def test_a_user_who_never_played_anything_is_unknown() -> None:
    assert profile(driver(), 7) is None


def test_one_event_is_a_whole_profile() -> None:
    store = driver()
    feed_plays(store, [(7, 1, 2, 3, 1_700_000_000_000)])
    assert profile(store, 7) == {
        "userId": 7,
        "eventCount": 1,
        "firstListeningEvent": "2023-11-14T22:13:20Z",
        "lastListeningEvent": "2023-11-14T22:13:20Z",
        "topTenArtists": [{"id": 1, "countPlays": 1}],
        "topTenAlbums": [{"id": 2, "countPlays": 1}],
        "topTenTracks": [{"id": 3, "countPlays": 1}],
    }


def test_ties_are_ordered_by_the_number_of_the_id() -> None:
    store = driver()
    artists = [LONG_MAX, 100, 20, 10, 9, 3, 2, 1, 0, 11, 12, 1000]
    feed_plays(store, [(7, artist, 0, 0, 5) for artist in artists])
    assert [played["id"] for played in profile(store, 7)["topTenArtists"]] == sorted(artists)[:10]


def test_first_and_last_do_not_depend_on_the_order() -> None:
    store = driver()
    for moment in (5_000, 9_000, 1_000, 7_000):
        feed_plays(store, [(7, 1, 1, 1, moment)])
    found = profile(store, 7)
    assert (found["firstListeningEvent"], found["lastListeningEvent"]) == (
        "1970-01-01T00:00:01Z",
        "1970-01-01T00:00:09Z",
    )


def test_equal_events_count_each() -> None:
    store = driver()
    feed_plays(store, [(7, 1, 2, 3, 4)] * 3)
    assert (profile(store, 7)["eventCount"], profile(store, 7)["topTenTracks"][0]["countPlays"]) == (3, 3)


def test_an_eleventh_may_overtake() -> None:
    store = driver()
    feed_plays(store, [(7, artist, 0, 0, 0) for artist in range(11)])
    feed_plays(store, [(7, 10, 0, 0, 0)])
    assert profile(store, 7)["topTenArtists"][0] == {"id": 10, "countPlays": 2}


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
