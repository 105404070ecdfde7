"""The parts of an answer about a user: the choice by a request, and a new part by a service."""

from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate
from werkzeug.test import Client

from services.events import KINDS, PLAYS, ListeningEvent
from services.gateway.names import add, named
from services.recommendations.answers import member
from streamstate.app import App, Record
from streamstate.functions import Least, State, fold, view
from streamstate.testing import Driver
from streamstate.view import NamedIds, Part
from tests.raw import feed_plays
from tests.unit.gateway.deployment import FAN, PARTITIONS, STRANGER, USER, Services

METRICS = {"eventCount", "firstListeningEvent", "lastListeningEvent", "topTenArtists", "topTenAlbums", "topTenTracks"}
RECOMMENDATIONS = {*map(member, KINDS), "fallbacks"}


class First(msgspec.Struct, rename="camel"):
    """A track, and the album that it is on."""

    track_id: int
    album_id: int


class Firsts(msgspec.Struct, rename="camel"):
    """The first track that a user played."""

    user_id: int
    firsts: list[First]
    warnings: list[str]


class Played(State, by=PLAYS):
    """The least ids that a user played."""

    track = Least()
    album = Least()


@fold(PLAYS)
def play(record: Record[int, ListeningEvent], user: Played) -> None:
    """Of `USER` only."""
    if record.key == USER:
        user.track.add(record.value.track_id)
        user.album.add(record.value.album_id)


@view(
    "/v1/users/<key>/firsts",
    Firsts(42, [First(42, 42)], []),
    names=NamedIds({"firsts.trackId": "tracks", "firsts.albumId": "albums"}),
    part=Part(members=("firsts",)),
)
def firsts(user: int, played: Played) -> Firsts | None:
    """The first track of a user."""
    track, album = played.track.value, played.album.value
    return None if track is None or album is None else Firsts(user, [First(track, album)], ["firsts: invented"])


INVENTED = App("invented", (play,), (firsts,))
FIRST = {"trackId": 3, "trackName": None, "albumId": 2, "albumName": "1999"}


def invent(deployment: Services) -> None:
    """Serve the invented service; it knows `USER`, and not `FAN`."""
    deployment.start(INVENTED, 1)
    plays = [(USER, 1, 2, 3, 1_000), (FAN, 1, 2, 3, 1_000)]
    feed_plays(Driver(INVENTED, deployment.stores["invented"], PARTITIONS), plays)
    deployment.share_out("invented")


def ask(gateway: Client, query: str, user: int = USER) -> Any:
    return gateway.get(f"/v1/users/{user}{query}")


@pytest.mark.parametrize(
    ("query", "members"),
    [
        ("", METRICS | RECOMMENDATIONS),
        ("?parts=metrics,recommendations", METRICS | RECOMMENDATIONS),
        ("?parts=metrics", METRICS),
        ("?parts=recommendations", RECOMMENDATIONS),
        ("?parts=recent", {"recent"}),
        ("?parts=recent,metrics,recommendations", METRICS | RECOMMENDATIONS | {"recent"}),
        ("?parts=recent&parts=metrics,metrics", METRICS | {"recent"}),
    ],
)
def test_a_request_chooses_parts(reader: Client, query: str, members: set[str]) -> None:
    answer = ask(reader, query).get_json()
    assert answer.keys() == {"userId", "warnings"} | members
    assert (answer["userId"], answer["warnings"]) == (USER, [])


@pytest.mark.parametrize("query", ["?parts=", "?parts=none", "?parts=metrics,none", "?parts=artists"])
def test_a_part_that_there_is_not_is_a_400_that_lists_those_that_there_are(reader: Client, query: str) -> None:
    response = ask(reader, query)
    body = response.get_json(force=True)
    assert (response.status_code, body["type"]) == (400, "urn:streamstate:problem:bad-parameter")
    assert all(name in body["detail"] for name in ("metrics", "recent", "recommendations"))


def test_a_parameter_that_a_part_refuses_is_a_400(reader: Client) -> None:
    response = ask(reader, "?explain=0.5")
    body = response.get_json(force=True)
    assert (response.status_code, body["type"]) == (400, "urn:streamstate:problem:bad-parameter")
    assert "explain" in body["detail"]
    assert ask(reader, "?explain=0.5", STRANGER).status_code == 404


def test_views_of_names_without_a_service_are_named(deployment: Services) -> None:
    del deployment.at["names"]
    answer = deployment.gateway().get(f"/v1/users/{USER}?parts=metrics").get_json()
    assert answer["topTenArtists"][0]["name"] is None
    assert answer["warnings"] == [
        "names: no service answers artists, albums, tracks; deploy it, or name it to the gateway"
    ]


def test_a_service_that_has_not_answered_yet_is_named(deployment: Services) -> None:
    for one in deployment.at["recommendations"]:
        one.stop()
    gateway = deployment.gateway()
    answer = gateway.get(f"/v1/users/{USER}").get_json()
    assert answer["eventCount"] == 3
    assert answer["warnings"] == ["recommendations: no instance of recommendations answers; ask again in 1 s"]
    assert gateway.get(f"/v1/users/{USER}?parts=metrics").get_json()["warnings"] == []
    assert gateway.get(f"/v1/users/{USER}?parts=recommendations").status_code == 503


def test_a_service_that_declares_a_part_is_in_the_answer(deployment: Services) -> None:
    invent(deployment)
    gateway = deployment.gateway()
    answer = ask(gateway, "").get_json()
    assert answer.keys() == {"userId", "warnings", "firsts"} | METRICS | RECOMMENDATIONS
    assert answer["firsts"] == [FIRST]
    assert answer["warnings"] == ["firsts: invented"]
    assert ask(gateway, "?parts=firsts").get_json() == {
        "userId": USER, "firsts": [FIRST], "warnings": ["firsts: invented"],
    }  # fmt: skip
    assert gateway.get(f"/v1/users/{USER}/firsts").get_json()["firsts"] == [FIRST]


def test_the_document_has_a_part_that_is_declared(deployment: Services) -> None:
    invent(deployment)
    document = deployment.gateway().get("/openapi.json").get_json()
    validate(document)
    schemas = document["components"]["schemas"]
    assert schemas["Parts"]["items"]["enum"] == ["metrics", "recent", "recommendations", "firsts"]
    assert schemas["Parts"]["default"] == ["metrics", "recommendations", "firsts"]
    own = document["paths"]["/v1/users/{key}/firsts"]["get"]["responses"]["200"]["content"]["application/json"]
    assert own["schema"] in schemas["UserProfile"]["anyOf"]
    assert own["schema"]["allOf"][1]["properties"]["firsts"]["items"]["required"] == ["trackName", "albumName"]


def test_names_go_beside_their_ids_however_deep() -> None:
    answer = {"id": 1, "lists": [{"id": 2, "inner": [{"itemId": 3}, {"itemId": None}, {}]}, {"id": 4}]}
    views = {"id": "a", "lists.id": "b", "lists.inner.itemId": "c", "none.id": "d"}
    add({view: {key: f"{view}{key}" for key in range(5)} for view in views.values()}, named(answer, views))
    assert answer == {
        "id": 1,
        "name": "a1",
        "lists": [
            {"id": 2, "name": "b2", "inner": [{"itemId": 3, "itemName": "c3"}, {"itemId": None}, {}]},
            {"id": 4, "name": "b4"},
        ],
    }


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        (f"/v1/users/{USER}?at=1", "parts"),
        (f"/v1/users/{USER}?limits=3", "limit"),
        (f"/v1/users/{USER}/stream?part=metrics", "parts"),
        (f"/v1/users/{USER}/metrics?at=1", "there are none"),
        ("/v1/plays?form=1", "from"),
        ("/v1/users?prefix=1&limt=2", "limit"),
        ("/v1/system?at=1", "there are none"),
        (f"/v1/route/metrics/{USER}?at=1", "there are none"),
    ],
)
def test_a_parameter_that_no_part_has_is_refused_with_the_nearest(reader: Client, path: str, nearest: str) -> None:
    response = reader.get(path)
    assert response.status_code == 400
    assert nearest in response.get_json(force=True)["detail"]
