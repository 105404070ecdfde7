"""The gateway's document with access on: credentials of callers, and real answers compared with the document."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from flask.cli import routes_command
from flask.testing import FlaskClient
from openapi_spec_validator import validate
from werkzeug.test import Client, TestResponse

from streamstate.web.access import internal
from tests import contract
from tests.serving import Loop
from tests.unit.gateway.deployment import USER, Services
from tests.unit.gateway.guarding import ADMIN, NEEDED, OPEN, READ, TOKEN, Guarded


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


def test_it_is_titled_by_what_it_is_about(guarded: Guarded) -> None:
    assert document(guarded)["info"] == {"title": "User profiles", "version": "v1"}


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


def test_what_is_answered_is_what_the_document_says(deployment: Services) -> None:
    patient, hasty = (deployment.loop.wsgi(deployment.app(deadline_ms=ms)) for ms in (5_000, 50))
    contract.hold(hasty, patient)


# The gateway's pages: served whole from the installation, kept by their ETag; nothing in them is from elsewhere.

PAGE = Path("services/gateway/page")
DOCS = Path("libs/streamstate/src/streamstate/web/server/docs")
LINKS = re.compile(r"""(?:src|href)="([^"#]+)"|from "([^"]+)";""")
NAMESPACE = "http://www.w3.org/2000/svg"
REASONABLE_LINES = 200


@pytest.mark.parametrize("start", ["/", "/docs"])
def test_all_that_a_page_loads_is_served(reader: Client, start: str) -> None:
    seen, to_see = set[str](), {start}
    while to_see:
        path = to_see.pop()
        seen.add(path)
        response = reader.get(path)
        assert response.status_code == 200, path
        if path.endswith("openapi.json") or "swagger-ui" in path:
            continue
        links = [first or second for first, second in LINKS.findall(response.text)]
        to_see |= {re.sub(r"[^/]*$", "", path) + link.removeprefix("./") for link in links} - seen
    files = PAGE if start == "/" else DOCS
    assert {path.name for path in files.iterdir()} - {Path(path).name for path in seen} == {"index.html"}


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/docs", "/docs/swagger-ui.css"])
def test_a_file_is_sent_again_only_when_it_has_changed(reader: Client, path: str) -> None:
    first = reader.get(path)
    tag = first.headers["ETag"]
    assert first.headers["Cache-Control"] == "no-cache"
    assert reader.get(path, headers={"If-None-Match": f'"other", {tag}'}).status_code == 304
    assert reader.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_runs_only_its_own_files(reader: Client, path: str) -> None:
    policy = reader.get(path).headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/page/absent.js", "/page/..%2fapi.py", "/page/", "/docs/index.py"])
def test_only_files_of_the_page_are_served(reader: Client, path: str) -> None:
    assert reader.get(path).status_code == 404


@pytest.mark.parametrize("path", sorted((*PAGE.iterdir(), *DOCS.iterdir())), ids=str)
def test_no_file_names_another_server_or_makes_elements_of_text(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"https?://[^\"'`\s)]+", text)) <= {NAMESPACE}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|style=", text)
    assert len(text.splitlines()) <= REASONABLE_LINES


# Pages of other origins: none by default, and those that are allowed without a credential in their preflight.

ORIGIN = "https://app.company"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "authorization",
}


def test_a_page_of_another_origin_is_not_answered_by_default(guarded: Guarded) -> None:
    assert guarded.client.options("/v1/plays", headers=PREFLIGHT).status_code == 401
    answer = guarded.get(f"/v1/users/{USER}", guarded.keys[READ], Origin=ORIGIN)
    assert {name for name, _ in answer.headers if name.startswith("Access-Control") or name == "Vary"} == set()


def test_a_page_of_an_allowed_origin_asks_before_without_a_credential_and_reads_answers(
    guarded: Guarded, loop: Loop
) -> None:
    client = Client(loop.wsgi(guarded.deployment.app(origins=(ORIGIN,))))
    for path in (f"/v1/users/{USER}", "/nowhere"):
        asked = client.options(path, headers=PREFLIGHT)
        assert (asked.status_code, asked.get_data()) == (204, b"")
        assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
        assert {name: asked.headers[name] for name in ("Access-Control-Allow-Origin", "Vary")} == {
            "Access-Control-Allow-Origin": ORIGIN,
            "Vary": "Origin",
        }
    mine = {"Authorization": f"Bearer {guarded.keys[READ]}", "Origin": ORIGIN}
    for path, headers, status in (
        (f"/v1/users/{USER}", mine, 200),
        ("/v1/plays", mine, 403),
        ("/v1/plays", PREFLIGHT, 401),
    ):
        answer = client.get(path, headers=headers)
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (status, ORIGIN)
        assert {"Position", "RateLimit", "X-Request-Id"} <= {
            *answer.headers["Access-Control-Expose-Headers"].split(", ")
        }
    for other in ("https://app.company.evil", "null", "http://app.company"):
        assert client.options("/v1/plays", headers=PREFLIGHT | {"Origin": other}).status_code == 401
        answer = client.get(f"/v1/users/{USER}", headers=mine | {"Origin": other})
        assert (answer.status_code, answer.headers["Vary"]) == (200, "Origin")
        assert "Access-Control-Allow-Origin" not in answer.headers


# Flask itself knows all routes, and answers as the server does.

OWN = {"X-Request-Id", "State-Age-Ms", "Ratelimit", "Content-Length", "Served-By"}
"""Headers with a value of their own in each answer."""

MOMENTARY = re.compile("/metrics$|system|recommendations|processors|^/v1/users/<key>$")
"""Routes with another body at each request: counts, and random walks."""


def told(response: TestResponse) -> tuple[int, dict[str, str], bytes]:
    headers = {name: text for name, text in response.headers if name.title() not in OWN}
    return response.status_code, headers, response.get_data()


def test_flask_lists_every_route(guarded: Guarded) -> None:
    output = guarded.app.flask.test_cli_runner().invoke(routes_command).output
    assert [route.path for route in guarded.app.flask.table.values() if route.path not in output] == []


def test_flasks_client_gets_the_answer_of_the_server_at_every_route(guarded: Guarded) -> None:
    client: FlaskClient = guarded.deployment.built().flask.test_client()
    credential: dict[str, Any] = {"Authorization": f"Bearer {guarded.keys[ADMIN]}"}
    for rule, path in guarded.paths().items():
        ours = client.get(path, headers=credential, buffered=False)
        if rule.endswith("/stream") and ours.status_code != 404:
            assert (ours.status_code, ours.content_type) == (200, "text/event-stream")
            assert any(b"data: " in chunk for chunk in ours.iter_encoded())
            ours.close()
            continue
        status, headers, body = told(ours)
        expected = told(guarded.get(path, guarded.keys[ADMIN]))
        assert (status, headers) == expected[:2], path
        assert MOMENTARY.search(rule) or body == expected[2], path


def test_flask_answers_an_unknown_path_and_a_wrong_method_as_the_server_does(guarded: Guarded) -> None:
    client = guarded.deployment.built().flask.test_client()
    credential = {"Authorization": f"Bearer {guarded.keys[ADMIN]}"}
    assert client.get("/none", headers=credential).get_json(force=True)["status"] == 404
    assert client.delete("/livez", headers=credential).get_json(force=True)["status"] == 405
    assert client.get("/v1/users/1").get_json(force=True)["status"] == 401
