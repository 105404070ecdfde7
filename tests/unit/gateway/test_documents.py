"""The gateway's document with access on: credentials of callers, and real answers compared with the document."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from werkzeug.test import Client, TestResponse

from services.events import KINDS
from services.recommendations.answers import path as path_of
from streamstate.web.access import internal
from tests import contract
from tests.unit.gateway.deployment import PARTITIONS, STRANGER, USER, Services
from tests.unit.gateway.guarding import ADMIN, EXPLORE, NEEDED, OPEN, READ, TOKEN, Guarded


def document(asked: Guarded) -> dict[str, Any]:
    found: dict[str, Any] = asked.get("/openapi.json", asked.keys[ADMIN]).get_json()
    return found


def instance(asked: Guarded) -> Client:
    return Client(asked.deployment.at["metrics"][0].app)


def test_it_is_valid_and_its_examples_are_what_its_schemas_allow(guarded: Guarded) -> None:
    of_instance = instance(guarded).get("/openapi.json", headers={internal.HEADER: TOKEN}).get_json()
    for found in (document(guarded), of_instance):
        validate(found)
        contract.hold_examples(found)


def test_each_operation_says_which_scope_a_key_or_token_needs(guarded: Guarded) -> None:
    for path, item in document(guarded)["paths"].items():
        for method, operation in item.items():
            scope = ADMIN if method == "delete" else NEEDED[path.replace("{", "<").replace("}", ">")]
            assert operation.get("security", []) == (
                [] if scope == OPEN else [{"bearer": [scope]}, {"basic": [scope]}]
            ), path
            assert {"401", "403", "429"} & set(operation["responses"]) == (
                set() if scope == OPEN else {"401", "403", "429"}
            )
            assert "421" not in operation["responses"]


def raised() -> Iterator[tuple[int, str]]:
    """Status and kind of each problem in the sources."""
    for path in (*Path("libs").rglob("*.py"), *Path("services").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    ast.Name("Problem" | "Refusal"), [ast.Constant(int() as status), ast.Constant(str() as kind), *_]
                ):
                    yield status, kind


def shown(found: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Status and kind of each problem of which a document has an example."""
    for status, response in found["components"]["responses"].items():
        for kind in response["content"]["application/problem+json"]["examples"]:
            yield int(status), kind


def test_every_problem_has_an_example(guarded: Guarded) -> None:
    of_instance = instance(guarded).get("/openapi.json", headers={internal.HEADER: TOKEN}).get_json()
    problems = {*shown(document(guarded)), *shown(of_instance)}
    assert problems == set(raised())


def hold(found: Mapping[str, Any], path: str, response: TestResponse, method: str = "get") -> None:
    """Fails for a `response` that the document does not have for `path`."""
    described = found["paths"][path][method]["responses"][str(response.status_code)]
    described = found["components"]["responses"].get(described.get("$ref", "").rpartition("/")[2], described)
    content = described["content"][response.content_type]
    schema = {**content["schema"], "components": found["components"]}
    Draft202012Validator(schema).validate(response.get_json(force=True))
    headers = found["components"]["headers"]
    assert set(headers) & set(response.headers.keys()) <= set(described["headers"])
    assert {name for name in described["headers"] if headers[name]["required"]} <= set(response.headers.keys())


def test_what_is_really_answered_is_in_the_document(guarded: Guarded) -> None:
    found = document(guarded)
    user, metrics = "/v1/users/{key}", "/v1/users/{key}/metrics"
    read, admin = guarded.keys[READ], guarded.keys[ADMIN]
    for path, asked, credential, status in (
        (user, f"/v1/users/{USER}", read, 200),
        (metrics, f"/v1/users/{USER}/metrics", read, 200),
        (metrics, f"/v1/users/{STRANGER}/metrics", read, 404),
        (metrics, "/v1/users/x/metrics", read, 400),
        (metrics, f"/v1/users/{USER}/metrics", "", 401),
        (metrics, f"/v1/users/{USER}/metrics", guarded.keys[EXPLORE], 403),
        ("/v1/system", "/v1/system", admin, 200),
        ("/v1/system", "/v1/system", read, 403),
        ("/v1/route/{service}/{key}", f"/v1/route/metrics/{USER}", admin, 200),
        ("/v1/route/{service}/{key}", "/v1/route/none/7", admin, 404),
        ("/v1/metrics/processors", "/v1/metrics/processors", admin, 200),
        ("/v1/many", f"/v1/many?users={USER}&metrics={STRANGER}", read, 200),
        ("/v1/users", "/v1/users?prefix=4", guarded.keys[EXPLORE], 200),
        ("/v1/plays", "/v1/plays", guarded.keys[EXPLORE], 200),
        ("/livez", "/livez", "", 200),
    ):
        response = guarded.get(asked, credential)
        assert response.status_code == status, asked
        hold(found, path, response)


def test_what_is_answered_when_it_cannot_be_is_in_the_document(guarded: Guarded) -> None:
    found, read, path = document(guarded), guarded.keys[READ], f"/v1/users/{USER}/metrics"
    hasty = guarded.get(path, read, **{"X-Deadline-Ms": "1"})
    assert hasty.status_code in (200, 503, 504)
    wanted = ",".join(f"listening-events:{partition}=99" for partition in range(PARTITIONS))
    unmet = guarded.get(path, read, **{"X-Min-Position": wanted, "X-Deadline-Ms": "200"})
    assert unmet.status_code in (503, 504)
    body = guarded.client.post("/v1/many", data=b"[" * 200_000, headers={"Authorization": f"Bearer {read}"})
    assert body.status_code == 413
    hold(found, "/v1/many", body, "post")
    for served in guarded.deployment.at["metrics"]:
        served.stop()
    away = guarded.get(path, read)
    assert away.status_code == 503
    for response in (hasty, unmet, away):
        hold(found, "/v1/users/{key}/metrics", response)


def test_the_merged_document_is_valid_and_has_the_paths_of_all(deployment: Services) -> None:
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


def test_what_is_answered_is_what_the_document_says(deployment: Services) -> None:
    patient, hasty = (deployment.loop.wsgi(deployment.app(deadline_ms=ms)) for ms in (5_000, 50))

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        # The document of all services takes longer than a demand that is not met needs to wait for here.
        return (patient if environ["PATH_INFO"] == "/openapi.json" else hasty)(environ, start_response)

    contract.hold(answer)
