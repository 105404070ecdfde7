"""The gateway's document with access on: credentials of callers, and real answers compared with the document."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openapi_spec_validator import validate
from werkzeug.test import Client

from streamstate.web.access import internal
from tests import contract
from tests.unit.gateway.deployment import Services
from tests.unit.gateway.guarding import ADMIN, NEEDED, OPEN, TOKEN, Guarded


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


def test_what_is_answered_is_what_the_document_says(deployment: Services) -> None:
    patient, hasty = (deployment.loop.wsgi(deployment.app(deadline_ms=ms)) for ms in (5_000, 50))

    def answer(environ: Any, start_response: Any) -> Iterable[bytes]:
        # The document of all services takes longer than a demand that is not met needs to wait for here.
        return (patient if environ["PATH_INFO"] == "/openapi.json" else hasty)(environ, start_response)

    contract.hold(answer)
