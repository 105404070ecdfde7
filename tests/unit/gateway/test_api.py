"""The gateway as its callers see it."""

from typing import Any

import pytest
import urllib3
from werkzeug.test import Client, TestResponse

from services.names.model import APP as NAMES
from tests.serving import Loop, Serve, Served, scrape
from tests.unit.gateway.deployment import FAN, STRANGER, USER, Services
from tests.waiting import until_equal

PROFILE = {
    "userId": USER,
    "eventCount": 3,
    "firstListeningEvent": "1970-01-01T00:00:01Z",
    "lastListeningEvent": "1970-01-01T00:00:03Z",
    "topTenArtists": [{"id": 1, "name": "Prince", "countPlays": 2}, {"id": 9, "name": None, "countPlays": 1}],
    "topTenAlbums": [{"id": 2, "name": "1999", "countPlays": 2}, {"id": 8, "name": None, "countPlays": 1}],
    "topTenTracks": [{"id": 3, "name": None, "countPlays": 2}, {"id": 4, "name": None, "countPlays": 1}],
    "warnings": [],
}


def refused(response: TestResponse) -> dict[str, Any]:
    """The 4xx problem that `response` is."""
    assert 400 <= response.status_code < 500
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = response.get_json(force=True)
    assert body["detail"]
    return body


RECOMMENDED = {
    "artistRecommendations": [{"id": 5, "name": "The Time"}],
    "albumRecommendations": [{"id": 6, "name": None}],
    "trackRecommendations": [{"id": 7, "name": None}],
}


def without_scores(found: dict[str, Any]) -> dict[str, Any]:
    """A profile whose recommendations are ids and names alone: scores are drawn by dice."""
    lists = {name: [{"id": i["id"], "name": i["name"]} for i in found[name]] for name in RECOMMENDED}
    return {**found, **lists}


def test_a_profile_has_names_and_recommendations(deployment: Services) -> None:
    deployment.name("artists", 5, "The Time")
    response = deployment.gateway().get(f"/v1/users/{USER}")
    assert response.status_code == 200
    assert without_scores(response.get_json()) == {**PROFILE, **RECOMMENDED, "fallbacks": []}
    assert response.headers["Served-By"] == deployment.owner(USER).address


def recent(artist: str | None, album: str | None) -> list[dict[str, Any]]:
    """The recent plays of `USER`, with names for artist 1 and album 2."""
    names = {"artistName": artist, "albumName": album, "trackName": None}
    nameless = dict.fromkeys(names)
    return [
        {"userId": USER, "timestamp": 3_000, "artistId": 1, "albumId": 2, "trackId": 4, **names},
        {"userId": USER, "timestamp": 2_000, "artistId": 9, "albumId": 8, "trackId": 3, **nameless},
        {"userId": USER, "timestamp": 1_000, "artistId": 1, "albumId": 2, "trackId": 3, **names},
    ]


def test_recent_plays_have_names(deployment: Services) -> None:
    response = deployment.gateway().get(f"/v1/users/{USER}/recent")
    assert (response.status_code, response.get_json()) == (200, {"userId": USER, "recent": recent("Prince", "1999")})
    assert response.headers["Served-By"] == deployment.owner(USER, "names").address
    assert "listening-events:" in response.headers["Position"]
    bulk_calls = [path for path in deployment.at["names"][0].seen if path.startswith("/v1/many")]
    assert len(bulk_calls) == 1


def test_many_things_are_answered_to_a_post(reader: Client) -> None:
    body: dict[str, Any] = {"artists": [1, "2"], "albums": [2], "metrics": [USER]}
    query = f"artists=1&artists=2&albums=2&metrics={USER}"
    assert reader.post("/v1/many", json=body).get_json() == reader.get(f"/v1/many?{query}").get_json()


def test_many_users_are_answered_with_the_parts_that_are_chosen(reader: Client) -> None:
    body: dict[str, Any] = {"users": [USER, FAN, STRANGER], "parts": ["metrics", "recent"], "artists": [1]}
    found = reader.post("/v1/many", json=body).get_json()
    for user in (USER, FAN):
        assert found["users"][str(user)] == reader.get(f"/v1/users/{user}?parts=metrics,recent").get_json()
    assert found["users"][str(STRANGER)] is None
    assert found["artists"] == {"1": {"id": 1, "name": "Prince"}}
    alone = reader.post("/v1/many", json={"users": [USER], "parts": ["metrics"]}).get_json()
    assert alone == {"users": {str(USER): PROFILE}}


def test_a_thousand_users_are_answered_to_one_post(standing: Services) -> None:
    body: dict[str, Any] = {"users": list(range(1_000)), "parts": ["metrics"]}
    gateway = standing.gateway(deadline_ms=30_000)
    found = gateway.post("/v1/many", json=body).get_json()["users"]
    assert len(found) == 1_000
    assert [user for user, profile in found.items() if profile] == [str(USER), str(FAN)]
    body["users"].append(1_000)
    assert "up to 1000" in refused(gateway.post("/v1/many", json=body))["detail"]


@pytest.mark.parametrize("parts", [["recommendations"], ["none"], [""], ["metrics", "none"]])
def test_parts_that_many_users_do_not_have_are_refused(reader: Client, parts: list[str]) -> None:
    response = reader.post("/v1/many", json={"users": [USER], "parts": parts})
    assert "metrics, recent" in refused(response)["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1", "/v1/", "/v1/users/", "/v1/users//", "/v1/users//metrics", "/v1//users/1",
        "/v1/none/1", "/v1/users/..%2f", "/v1/users/..%2f..%2fprocessors", "/v1/users/1/2", "/v1/users/1/metrics/",
        "/processors", "/v1/users/%2f/recent", "/v1/users/1%0a", "/v1/artists/1%0a", "/v1/artists/1%00",
        "/v1/many?none=1", "/v1/many?none", "/v2/users/1", "/v1/%0a/1",
    ],
)  # fmt: skip
def test_a_path_that_there_is_not_is_refused(reader: Client, path: str) -> None:
    refused(reader.get(path))


@pytest.mark.parametrize(("path", "service"), [("metrics", "metrics"), ("recent", "names")])
def test_query_parameters_reach_the_owner(standing: Services, reader: Client, path: str, service: str) -> None:
    reader.get(f"/v1/users/{USER}/{path}?a=1&a=2&b=x+%26+y")
    assert f"/v1/users/{USER}/{path}?a=1&a=2&b=x+%26+y" in standing.owner(USER, service).seen


def test_every_service_that_is_asked_gets_the_ids_of_the_request(deployment: Services) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for given in ({"X-Request-Id": "mine", "traceparent": trace}, {"traceparent": "00-zz"}):
        answered = deployment.gateway().get(f"/v1/users/{USER}", headers=given).headers["X-Request-Id"]
        for service in ("metrics", "names"):
            passed_on = deployment.owner(USER, service).headers[-1]
            assert passed_on["X-Request-Id"] == answered
            assert passed_on.get("Traceparent") == (trace if answered == "mine" else None)


def test_a_service_that_comes_later_is_answered(serve: Serve, loop: Loop) -> None:
    deployment = Services(serve, loop)
    deployment.start(NAMES, 1)
    deployment.name("artists", 1, "Prince")
    (first,) = deployment.at["names"]
    first.stop()
    gateway = deployment.gateway(owners_ttl_s=0.05)
    assert (gateway.get("/readyz").status_code, gateway.get("/v1/artists/1").status_code) == (503, 503)
    assert "/v1/artists/{key}" not in gateway.get("/openapi.json").get_json()["paths"]
    again = Served(first.address, first.app)
    try:
        until_equal(lambda: gateway.get("/v1/artists/1").status_code, 200)
        assert gateway.get("/readyz").status_code == 200
        assert "/v1/artists/{key}" in gateway.get("/openapi.json").get_json()["paths"]
    finally:
        again.stop()


def test_ready_means_that_some_service_is_known(deployment: Services) -> None:
    deployment.at["names"][0].stop()
    assert deployment.gateway().get("/readyz").get_json() == {"status": "ready"}
    for one in (*deployment.at["metrics"], *deployment.at["recommendations"]):
        one.stop()
    gateway = deployment.gateway()
    assert gateway.get("/livez").status_code == 200
    response = gateway.get("/readyz")
    assert response.status_code == 503
    assert "metrics, names" in response.get_json()["detail"]


def test_gateway_and_instances_stay_ready_and_say_since_when_kafka_does_not_answer(
    deployment: Services,
) -> None:
    deployment.topics.fall_silent(1_700_000_000)
    told = {"status": "ready", "kafka": "has not answered since 2023-11-14T22:13:20Z"}
    instance = deployment.at["metrics"][0].address
    assert urllib3.request("GET", f"http://{instance}/readyz").json() == told
    response = deployment.gateway().get("/readyz")
    assert (response.status_code, response.get_json()) == (200, told)


def test_no_key_is_in_the_metrics(reader: Client) -> None:
    for path in ("/v1/users/123454321", "/v1/artists/123454321", "/v1/none/123454321", "/v1/many?artists=123454321"):
        reader.get(path)
    assert "123454321" not in scrape(reader)


@pytest.mark.parametrize(("cached", "calls"), [(100, 1), (1, 2)])
def test_names_are_remembered_and_those_that_were_known_for_longest_make_room(
    deployment: Services, cached: int, calls: int
) -> None:
    gateway = deployment.gateway(names_cached=cached)
    first, again = (gateway.get(f"/v1/users/{USER}/metrics").get_json() for _ in range(2))
    assert first == again
    assert sum(path.startswith("/v1/many") for path in deployment.at["names"][0].seen) == calls
