"""The gateway as its callers see it."""

from collections.abc import Iterable
from typing import Any

import pytest
from openapi_spec_validator import validate
from werkzeug.test import TestResponse

from services.events import KINDS
from services.metrics.model import APP as METRICS
from services.names.model import APP as NAMES
from services.recommendations.answers import path as path_of
from tests.contract import hold
from tests.serving import Loop, Serve, Served, forwarded, scrape, until
from tests.unit.gateway.conftest import FAN, PARTITIONS, STRANGER, USER, Deployment

NO_IDS = [
    "abc", "-1", "+1", "%201", "1_000", "%EF%BC%91", "00012", "1e3", "0x10", "9223372036854775808", "9" * 5_000, "%00",
]  # fmt: skip
TEMPLATES = ["/v1/users/{}", "/v1/users/{}/metrics", "/v1/users/{}/recent", "/v1/artists/{}", "/v1/many?tracks={}"]
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


def test_metrics_have_names(deployment: Deployment) -> None:
    response = deployment.gateway().get(f"/v1/users/{USER}/metrics")
    assert (response.status_code, response.get_json()) == (200, PROFILE)
    assert response.headers["Served-By"] == deployment.owner(USER).address


def test_a_profile_has_names_and_recommendations(deployment: Deployment) -> None:
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


def test_recent_plays_have_names(deployment: Deployment) -> None:
    response = deployment.gateway().get(f"/v1/users/{USER}/recent")
    assert (response.status_code, response.get_json()) == (200, {"userId": USER, "recent": recent("Prince", "1999")})
    assert response.headers["Served-By"] == deployment.owner(USER, "names").address
    assert "listening-events:" in response.headers["Position"]
    bulk_calls = [path for path in deployment.at["names"][0].seen if path.startswith("/v1/many")]
    assert len(bulk_calls) == 1


def test_a_name_that_comes_later_or_changes_shows_in_recent_plays(deployment: Deployment) -> None:
    deployment.name("artists", 1, "The Artist")
    deployment.name("artists", 9, "A late name")
    answer = deployment.gateway().get(f"/v1/users/{USER}/recent").get_json()
    assert [play["artistName"] for play in answer["recent"]] == ["The Artist", "A late name", "The Artist"]


def test_recent_plays_are_answered_while_names_are_being_built(deployment: Deployment) -> None:
    for partition in range(PARTITIONS):
        deployment.stores["names"].claim(partition, deployment.at["names"][0].address, {"tracks": 5})
    answer = deployment.gateway().get(f"/v1/users/{USER}/recent").get_json()
    assert answer["recent"] == recent(None, None)
    (warning,) = answer["warnings"]
    assert warning.startswith("names: ")


def test_many_recent_plays_are_ids(deployment: Deployment) -> None:
    answer = deployment.gateway().get(f"/v1/many?recent={USER}").get_json()["recent"][str(USER)]
    ids = ("userId", "timestamp", "artistId", "albumId", "trackId")
    assert answer == {"userId": USER, "recent": [{name: play[name] for name in ids} for play in recent(None, None)]}


def test_a_thing_is_answered_by_id(deployment: Deployment) -> None:
    assert deployment.gateway().get("/v1/artists/1").get_json() == {"id": 1, "name": "Prince"}


def test_many_things_of_any_service_are_answered_at_once(deployment: Deployment) -> None:
    found = deployment.gateway().get(f"/v1/many?artists=1&artists=2&albums=2&metrics={USER}").get_json()
    assert found["artists"] == {"1": {"id": 1, "name": "Prince"}, "2": None}
    assert found["albums"] == {"2": {"id": 2, "name": "1999"}}
    assert found["metrics"][str(USER)]["eventCount"] == 3


def test_many_things_are_answered_to_a_post(deployment: Deployment) -> None:
    body: dict[str, Any] = {"artists": [1, "2"], "albums": [2], "metrics": [USER]}
    query = f"artists=1&artists=2&albums=2&metrics={USER}"
    gateway = deployment.gateway()
    assert gateway.post("/v1/many", json=body).get_json() == gateway.get(f"/v1/many?{query}").get_json()


def test_many_users_are_answered_with_the_parts_that_are_chosen(deployment: Deployment) -> None:
    gateway = deployment.gateway()
    body: dict[str, Any] = {"users": [USER, FAN, STRANGER], "parts": ["metrics", "recent"], "artists": [1]}
    found = gateway.post("/v1/many", json=body).get_json()
    for user in (USER, FAN):
        assert found["users"][str(user)] == gateway.get(f"/v1/users/{user}?parts=metrics,recent").get_json()
    assert found["users"][str(STRANGER)] is None
    assert found["artists"] == {"1": {"id": 1, "name": "Prince"}}
    alone = gateway.post("/v1/many", json={"users": [USER], "parts": ["metrics"]}).get_json()
    assert alone == {"users": {str(USER): PROFILE}}


def test_a_thousand_users_are_answered_to_one_post(deployment: Deployment) -> None:
    body: dict[str, Any] = {"users": list(range(1_000)), "parts": ["metrics"]}
    found = deployment.gateway(deadline_ms=30_000).post("/v1/many", json=body).get_json()["users"]
    assert len(found) == 1_000
    assert [user for user, profile in found.items() if profile] == [str(USER), str(FAN)]
    body["users"].append(1_000)
    assert "up to 1000" in refused(deployment.gateway().post("/v1/many", json=body))["detail"]


@pytest.mark.parametrize("parts", [["recommendations"], ["none"], [""], ["metrics", "none"]])
def test_parts_that_many_users_do_not_have_are_refused(deployment: Deployment, parts: list[str]) -> None:
    response = deployment.gateway().post("/v1/many", json={"users": [USER], "parts": parts})
    assert "metrics, recent" in refused(response)["detail"]


def test_names_of_many_users_that_cannot_be_had_are_a_warning_of_each(deployment: Deployment) -> None:
    gateway = deployment.gateway()
    deployment.at["names"][0].stop()
    found = gateway.post("/v1/many", json={"users": [USER, FAN], "parts": ["metrics"]}).get_json()["users"]
    for user in (USER, FAN):
        (warning,) = found[str(user)]["warnings"]
        assert warning.startswith("names: ")


def test_no_instance_ever_passes_a_request_on(deployment: Deployment) -> None:
    gateway = deployment.gateway()
    for user in range(20):
        gateway.get(f"/v1/users/{user}")
    gateway.get(f"/v1/users/{USER}")
    assert {forwarded(one.address) for served in deployment.at.values() for one in served} == {0}


@pytest.mark.parametrize("template", ["/v1/users/{}", "/v1/users/{}/metrics", "/v1/users/{}/recent", "/v1/tracks/{}"])
def test_an_unknown_key_is_404(deployment: Deployment, template: str) -> None:
    response = deployment.gateway().get(template.format(STRANGER))
    assert (response.status_code, refused(response)["type"]) == (404, "urn:streamstate:problem:unknown-key")


@pytest.mark.parametrize("template", TEMPLATES)
def test_text_that_is_no_id_is_400(deployment: Deployment, template: str) -> None:
    gateway = deployment.gateway()
    for text in NO_IDS:
        response = gateway.get(template.format("%2B1" if text == "+1" else text))
        assert (text[:20], response.status_code) == (text[:20], 400)
        assert "plain digits" in refused(response)["detail"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1", "/v1/", "/v1/users/", "/v1/users//", "/v1/users//metrics", "/v1//users/1",
        "/v1/none/1", "/v1/users/..%2f", "/v1/users/..%2f..%2fprocessors", "/v1/users/1/2", "/v1/users/1/metrics/",
        "/processors", "/v1/users/%2f/recent", "/v1/users/1%0a", "/v1/artists/1%0a", "/v1/artists/1%00",
        "/v1/many?none=1", "/v1/many?none", "/v2/users/1", "/v1/%0a/1",
    ],
)  # fmt: skip
def test_a_path_that_there_is_not_is_refused(deployment: Deployment, path: str) -> None:
    refused(deployment.gateway().get(path))


@pytest.mark.parametrize(
    ("method", "template"),
    [
        *((method, template) for method in ("PUT", "PATCH", "TRACE") for template in TEMPLATES),
        *(("DELETE", template) for template in TEMPLATES[1:]),
        *(("POST", template) for template in TEMPLATES if "many" not in template),
    ],
)
def test_another_method_is_405(deployment: Deployment, template: str, method: str) -> None:
    response = deployment.gateway().open(template.format(1), method=method)
    assert (response.status_code, refused(response)["type"]) == (405, "urn:streamstate:problem:method-not-allowed")
    assert "GET" in response.headers["Allow"]


@pytest.mark.parametrize("path", [f"/v1/users/{USER}", f"/v1/users/{USER}/recent", "/v1/many?artists=1"])
def test_a_deadline_that_is_none_is_400(deployment: Deployment, path: str) -> None:
    for text in ("", "0", "-1", "soon", "1.5"):
        refused(deployment.gateway().get(path, headers={"X-Deadline-Ms": text}))


def test_more_keys_than_one_request_may_have_are_refused(deployment: Deployment) -> None:
    query = "&".join(f"artists={number}" for number in range(1_001))
    refused(deployment.gateway().get(f"/v1/many?{query}"))


def test_a_request_for_no_keys_is_refused(deployment: Deployment) -> None:
    refused(deployment.gateway().get("/v1/many"))


@pytest.mark.parametrize(("path", "service"), [("metrics", "metrics"), ("recent", "names")])
def test_query_parameters_reach_the_owner(deployment: Deployment, path: str, service: str) -> None:
    deployment.gateway().get(f"/v1/users/{USER}/{path}?a=1&a=2&b=x+%26+y")
    assert f"/v1/users/{USER}/{path}?a=1&a=2&b=x+%26+y" in deployment.owner(USER, service).seen


def test_every_service_that_is_asked_gets_the_ids_of_the_request(deployment: Deployment) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for given in ({"X-Request-Id": "mine", "traceparent": trace}, {"traceparent": "00-zz"}):
        answered = deployment.gateway().get(f"/v1/users/{USER}", headers=given).headers["X-Request-Id"]
        for service in ("metrics", "names"):
            passed_on = deployment.owner(USER, service).headers[-1]
            assert passed_on["X-Request-Id"] == answered
            assert passed_on.get("Traceparent") == (trace if answered == "mine" else None)


def test_headers_that_others_may_forge_change_nothing(deployment: Deployment) -> None:
    headers = {
        "X-Forwarded-Host": "evil", "X-Forwarded-For": "1.2.3.4", "X-Direct": "1", "Host": "evil", "traceparent": "bad",
        "X-Request-Id": "x" * 10_000,
    }  # fmt: skip
    response = deployment.gateway().get(f"/v1/users/{USER}/metrics", headers=headers)
    assert response.get_json() == PROFILE
    assert len(response.headers["X-Request-Id"]) == 32


def test_names_that_cannot_be_had_are_a_warning(deployment: Deployment) -> None:
    gateway = deployment.gateway()
    gateway.get(f"/v1/users/{STRANGER}")
    deployment.at["names"][0].stop()
    found = gateway.get(f"/v1/users/{USER}").get_json()
    assert found["eventCount"] == 3
    assert found["topTenArtists"] == [
        {"id": 1, "name": None, "countPlays": 2},
        {"id": 9, "name": None, "countPlays": 1},
    ]
    (warning,) = found["warnings"]
    assert warning.startswith("names: ")


def test_names_are_remembered(deployment: Deployment) -> None:
    gateway = deployment.gateway()
    first, again = (gateway.get(f"/v1/users/{USER}/metrics").get_json() for _ in range(2))
    assert first == again
    assert sum(path.startswith("/v1/many") for path in deployment.at["names"][0].seen) == 1


def test_the_names_that_were_known_for_longest_make_room(deployment: Deployment) -> None:
    gateway = deployment.gateway(names_cached=1)
    first, again = (gateway.get(f"/v1/users/{USER}/metrics").get_json() for _ in range(2))
    assert first == again
    assert sum(path.startswith("/v1/many") for path in deployment.at["names"][0].seen) == 2


def test_names_live_while_metrics_never_answered(serve: Serve, loop: Loop) -> None:
    deployment = Deployment(serve, loop)
    deployment.start(METRICS, 1)
    deployment.start(NAMES, 1)
    deployment.name("artists", 1, "Prince")
    deployment.at["metrics"][0].stop()
    gateway = deployment.gateway()
    assert gateway.get("/v1/users/1").status_code == 503
    assert gateway.get("/v1/artists/1").get_json() == {"id": 1, "name": "Prince"}
    assert gateway.get("/v1/many?artists=1").status_code == 200


def test_a_service_that_comes_later_is_answered(serve: Serve, loop: Loop) -> None:
    deployment = Deployment(serve, loop)
    deployment.start(NAMES, 1)
    deployment.name("artists", 1, "Prince")
    (first,) = deployment.at["names"]
    first.stop()
    gateway = deployment.gateway(owners_ttl_s=0.05)
    assert (gateway.get("/readyz").status_code, gateway.get("/v1/artists/1").status_code) == (503, 503)
    again = Served(first.address, first.app)
    try:
        until(lambda: gateway.get("/v1/artists/1").status_code == 200)
        assert gateway.get("/readyz").status_code == 200
    finally:
        again.stop()


def test_ready_means_that_some_service_is_known(deployment: Deployment) -> None:
    deployment.at["names"][0].stop()
    assert deployment.gateway().get("/readyz").get_json() == {"status": "ready"}
    for one in (*deployment.at["metrics"], *deployment.at["recommendations"]):
        one.stop()
    gateway = deployment.gateway()
    assert gateway.get("/livez").status_code == 200
    response = gateway.get("/readyz")
    assert response.status_code == 503
    assert "metrics, names" in response.get_json()["detail"]


def test_a_503_of_an_owner_still_says_when_to_ask_again(deployment: Deployment) -> None:
    deployment.stores["metrics"].empty()
    for partition in range(4):
        deployment.stores["metrics"].claim(partition, deployment.at["metrics"][0].address, {"listening-events": 5})
    response = deployment.gateway().get(f"/v1/users/{USER}")
    assert response.status_code == 503
    assert "Retry-After" in response.headers


def test_no_key_is_in_the_metrics(deployment: Deployment) -> None:
    gateway = deployment.gateway()
    for path in ("/v1/users/123454321", "/v1/artists/123454321", "/v1/none/123454321", "/v1/many?artists=123454321"):
        gateway.get(path)
    assert "123454321" not in scrape(gateway)


def test_the_merged_document_is_valid_and_has_the_paths_of_all(deployment: Deployment) -> None:
    document = deployment.gateway().get("/openapi.json").get_json()
    validate(document)
    recommendations = {path_of(kind).replace("<key>", "{key}") for kind in KINDS}
    maps = {f"/v1/{service}/processors" for service in deployment.at}
    assert recommendations | maps | {
        "/v1/users/{key}", "/v1/users/{key}/metrics", "/v1/users/{key}/recent", "/v1/users/{key}/recommendations",
        "/v1/artists/{key}", "/v1/albums/{key}", "/v1/tracks/{key}", "/v1/many", "/v1/plays",
        "/v1/users", "/v1/users/{key}/stream", "/v1/users/{key}/deletion", "/v1/users/{key}/export",
        "/v1/system", "/v1/system/stream", "/v1/route/{service}/{key}", "/livez",
        "/readyz",
    } == set(document["paths"])  # fmt: skip
    answer = document["paths"]["/v1/users/{key}/metrics"]["get"]["responses"]["200"]
    described, added = answer["content"]["application/json"]["schema"]["allOf"]
    assert described == {"$ref": "#/components/schemas/UserMetrics"}
    assert added["properties"]["topTenArtists"]["items"]["required"] == ["name"]


def test_the_map_of_a_service_is_answered_by_any_of_its_instances(deployment: Deployment) -> None:
    found = deployment.gateway().get("/v1/metrics/processors").get_json()
    owned = {f"{one['host']}:{one['port']}": one["partitions"] for one in found["instances"]}
    assert owned == {one.address: [number, number + 2] for number, one in enumerate(deployment.at["metrics"])}


def test_the_merged_document_names_the_views_of_all_services_for_many(deployment: Deployment) -> None:
    document = deployment.gateway().get("/openapi.json").get_json()
    names = [one["name"] for one in document["paths"]["/v1/many"]["get"]["parameters"] if one["in"] == "query"]
    assert sorted(names) == ["albums", "artists", "metrics", "parts", "recent", "tracks", "users"]
    body = document["paths"]["/v1/many"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert sorted(body["properties"]) == sorted(names)
    assert body["properties"]["parts"]["items"] == {"enum": ["metrics", "recent"]}


def test_the_document_has_a_service_that_came_later(serve: Serve, loop: Loop) -> None:
    deployment = Deployment(serve, loop)
    deployment.start(METRICS, 1)
    deployment.start(NAMES, 1)
    (first,) = deployment.at["names"]
    first.stop()
    gateway = deployment.gateway()
    assert "/v1/artists/{key}" not in gateway.get("/openapi.json").get_json()["paths"]
    again = Served(first.address, first.app)
    try:
        assert "/v1/artists/{key}" in gateway.get("/openapi.json").get_json()["paths"]
    finally:
        again.stop()


def test_what_is_answered_is_what_the_document_says(deployment: Deployment) -> None:
    patient, hasty = (deployment.loop.wsgi(deployment.app(deadline_ms=ms)) for ms in (5_000, 50))

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        # The document of all services takes longer than a demand that is not met needs to wait for here.
        return (patient if environ["PATH_INFO"] == "/openapi.json" else hasty)(environ, start_response)

    hold(answer)
