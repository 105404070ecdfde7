"""Names by id, the most recent plays by ids, and every play published with the names that were known."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.names.model import APP, ENRICHED
from streamstate.keys import LONG, LONG_MAX
from streamstate.processing.decode import DeadLetter
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver
from tests.raw import Play, feed, feed_name, feed_plays, name_json, plain

ids = st.integers(0, 3)
plays = st.lists(st.tuples(st.integers(0, 1), ids, ids, ids, st.integers(0, 30)), max_size=70)
names = st.dictionaries(ids, st.text(max_size=6, alphabet=st.characters(exclude_categories=["Cs"])))


@pytest.fixture
def driver() -> Driver:
    return new_driver()


def new_driver() -> Driver:
    return Driver(APP, MemoryStore(), 3)


def recent(driver: Driver, user: int) -> list[dict[str, Any]]:
    answer = plain(driver.view("recent", user))
    return [] if answer is None else list(answer["recent"])


def published(driver: Driver) -> list[dict[str, Any]]:
    return [json.loads(emit.value) for emit in driver.emitted]


@settings(max_examples=60)
@given(plays, names, names, names)
def test_every_play_is_published_with_its_names(
    plays: list[Play], artists: dict[int, str], albums: dict[int, str], tracks: dict[int, str]
) -> None:
    driver = new_driver()
    for kind, table in (("artists", artists), ("albums", albums), ("tracks", tracks)):
        for key, name in table.items():
            feed_name(driver, kind, key, name)
    feed_plays(driver, plays)
    assert all((emit.topic, emit.key) == (ENRICHED, LONG.encode(emit.cause.key)) for emit in driver.emitted)
    for user in range(3):
        assert [event for event in published(driver) if event["userId"] == user] == [
            {
                "userId": user,
                "timestamp": moment,
                "artistId": artist,
                "artistName": artists.get(artist),
                "albumId": album,
                "albumName": albums.get(album),
                "trackId": track,
                "trackName": tracks.get(track),
            }
            for listener, artist, album, track, moment in plays
            if listener == user
        ]


@pytest.mark.parametrize("kind", ["artists", "albums", "tracks"])
@pytest.mark.parametrize("name", ["", "\0", "🎵", "שלום", "x" * 65_536, "<script>alert(1)</script>", " a b "])
def test_any_name_comes_back_as_it_was(driver: Driver, kind: str, name: str) -> None:
    feed_name(driver, kind, LONG_MAX, name)
    assert plain(driver.view(kind, LONG_MAX)) == {"id": LONG_MAX, "name": name}
    assert driver.view(kind, 1) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (name_json(2, "other"), "the key is not the id"),
        (b'{"id": 1}', "name"),
        (b'{"id": 1, "name": null}', "str"),
        (b'{"id": "1", "name": "x"}', "int"),
        (b'{"id": 1, "name": "\\ud800"}', ""),
        (b'{"id": 1, "name": "\xff"}', "utf-8"),
        (b"", "truncated"),
    ],
)
def test_a_bad_name_is_dead_lettered_and_the_one_before_holds(driver: Driver, value: bytes, reason: str) -> None:
    feed_name(driver, "artists", 1, "before")
    feed(driver, "artists", [(1, value)])
    letter: DeadLetter
    (letter,) = driver.dead
    assert reason in str(letter.error)
    assert plain(driver.view("artists", 1)) == {"id": 1, "name": "before"}
