"""The merged profile."""

import msgspec

from services.gateway.names import Names
from services.gateway.profile import M, UserMetrics, UserProfile, merged, named, things
from services.gateway.recommended import NamedItem, NamedRecommendations
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


def decoded(kind: type[M]) -> M:
    """The profile as the gateway gets it."""
    return msgspec.json.decode(msgspec.json.encode(PROFILE), type=kind)


def metrics(names: Names, warnings: list[str]) -> UserMetrics:
    return named(decoded(UserMetrics), names, warnings)


def test_each_thing_of_a_chart_has_a_name_to_be_found() -> None:
    assert things(decoded(UserMetrics)) == [("artists", 1), ("artists", 2), ("albums", 1)]


def test_names_go_to_their_kind_and_id_and_what_has_none_is_null() -> None:
    found = metrics({("artists", 1): "Prince", ("artists", 2): None}, [])
    assert msgspec.to_builtins(found) == {
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
    assert metrics({("artists", 1): ""}, []).top_ten_artists[0].name == ""


def test_warnings_are_passed_on() -> None:
    assert metrics({}, ["names: away"]).warnings == ["names: away"]


def test_recommendations_get_names_and_what_is_missing_is_empty() -> None:
    tracks = NamedRecommendations(7, [NamedItem(id=5, score=20)], 1_000, partial=True, fallback="popular")
    found = msgspec.to_builtins(
        merged(decoded(UserProfile), {"tracks": tracks}, {("tracks", 5): "Kiss"}, ["albumRecommendations: x"])
    )
    assert found["trackRecommendations"] == [{"id": 5, "name": "Kiss", "score": 20}]
    assert found["artistRecommendations"] == found["albumRecommendations"] == []
    assert found["fallbacks"] == ["trackRecommendations"]
    assert found["warnings"] == ["albumRecommendations: x", "trackRecommendations: partial, time ran out"]
