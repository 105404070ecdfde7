"""The merged profile."""

import msgspec

from services.gateway.profile import named, things
from services.metrics.model import Played, Profile

PROFILE = Profile(
    7,
    3,
    "1970-01-01T00:00:00Z",
    "1970-01-01T00:00:09Z",
    [Played(1, 2), Played(2, 1)],
    [Played(1, 3)],
    [],
)


def test_each_thing_of_a_chart_has_a_name_to_be_found() -> None:
    assert things(PROFILE) == [("artists", 1), ("artists", 2), ("albums", 1)]


def test_names_go_to_their_kind_and_id_and_what_has_none_is_null() -> None:
    merged = named(PROFILE, {("artists", 1): "Prince", ("artists", 2): None}, [])
    assert msgspec.to_builtins(merged) == {
        "userId": 7,
        "eventCount": 3,
        "firstListeningEvent": "1970-01-01T00:00:00Z",
        "lastListeningEvent": "1970-01-01T00:00:09Z",
        "topTenArtists": [
            {"id": 1, "name": "Prince", "countPlays": 2},
            {"id": 2, "name": None, "countPlays": 1},
        ],
        "topTenAlbums": [{"id": 1, "name": None, "countPlays": 3}],
        "topTenTracks": [],
        "warnings": [],
    }


def test_an_empty_name_is_a_name() -> None:
    assert named(PROFILE, {("artists", 1): ""}, []).top_ten_artists[0].name == ""


def test_warnings_are_passed_on() -> None:
    assert named(PROFILE, {}, ["names: away"]).warnings == ["names: away"]
