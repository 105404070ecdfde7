"""The OpenAPI document: from the views and the types of their answers."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from apiflask import APIFlask

from streamstate.app import View
from streamstate.keys import LONG, LONG_MAX, TEXT_MAX_BYTES, TEXT_PATTERN, KeyCodec
from streamstate.settings import LEAST_STALENESS_MS
from streamstate.web.http.deadline import ENTRIES_PATTERN, MAX_STALENESS, MIN_POSITION, MOST_MS
from streamstate.web.http.deadline import HEADER as DEADLINE
from streamstate.web.http.problems import MOST_KEYS
from streamstate.web.http.request import Response

MANY = "/v1/many"
_REF = "#/components/schemas/{name}"
_PROBLEM = {
    "type": "object",
    "description": "RFC 9457; `detail` says what to do next",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
}
PROBLEMS = {
    400: "The request is malformed",
    404: "The key is unknown",
    421: "Another instance owns the key",
    503: "Not ready yet; see Retry-After",
    504: "The deadline passed",
}


DEMANDS: list[dict[str, Any]] = [
    {
        "in": "header",
        "name": name,
        "description": text,
        "schema": schema,
    }
    for name, text, schema in (
        (
            DEADLINE,
            "milliseconds within which an answer is wanted",
            {"type": "integer", "minimum": 1, "maximum": MOST_MS},
        ),
        (
            MIN_POSITION,
            "topic:partition=offset, separated by commas: the state must have reached these next offsets",
            {"type": "string", "pattern": f"^{ENTRIES_PATTERN}$"},
        ),
        (
            MAX_STALENESS,
            "milliseconds that the state may be behind its topics",
            {"type": "integer", "minimum": LEAST_STALENESS_MS, "maximum": MOST_MS},
        ),
    )
]
_BRACKETS = re.compile("<([a-z]+)>")


def application(service: str) -> APIFlask:
    """An application that documents itself at /openapi.json and /docs."""
    flask = APIFlask(f"streamstate.{service}", title=service, version="1", json_errors=False)
    flask.config["OPENAPI_VERSION"] = "3.1.0"
    flask.config["AUTO_404_RESPONSE"] = False
    # An empty key is an error, not a redirect.
    flask.url_map.merge_slashes = False
    return flask


def route(flask: APIFlask, path: str, name: str, view: Callable[..., Awaitable[Response]], **document: Any) -> None:
    """Let `flask` have a route with these words about it; `view` is a coroutine function, which `Asgi` awaits."""
    flask.add_url_rule(path, name, cast("Any", flask.doc(**document)(view)))


def of_route(name: str, summary: str, answers: type[msgspec.Struct]) -> dict[str, Any]:
    """What to say of a route that answers an `answers` object for a key."""
    return {
        "summary": summary,
        "operation_id": name,
        "responses": responses({"$ref": _REF.format(name=answers.__name__)}, PROBLEMS),
    }


def of_process(summary: str) -> dict[str, Any]:
    """What to say of a route about the process itself, which may not be ready for it."""
    return {"summary": summary, "responses": responses({"type": "object"}, {503: PROBLEMS[503]})}


def of_many() -> dict[str, Any]:
    """What to say of the route for many keys."""
    shape = {"type": "object", "additionalProperties": {"type": "object"}}
    return {
        "summary": "Many keys at once: answers by view and key, null for a key that is unknown",
        "operation_id": "many",
        "responses": responses(shape, {status: text for status, text in PROBLEMS.items() if status != 404}),
    }


def key_parameter(codec: KeyCodec[Any]) -> dict[str, Any]:
    """The key in a path."""
    return {"in": "path", "name": "key", "required": True, "schema": _schema(codec)}


def view_parameters(view: View[Any]) -> list[dict[str, Any]]:
    """What the path and the query of `view` take."""
    key = [] if view.key is None else [key_parameter(view.key)]
    return key if view.query is None else [*key, *query_parameters(view.query)]


def many_parameters(views: Sequence[View[Any]]) -> list[dict[str, Any]]:
    """The keys in a query, by view."""
    return [
        {
            "in": "query",
            "name": view.name,
            "explode": True,
            "schema": {"type": "array", "items": _schema(view.key), "maxItems": MOST_KEYS},
        }
        for view in views
        if view.key is not None and view.topic is not None
    ]


def query_parameters(kind: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """The parameters that `query.parse` takes for `kind`."""
    _, schemas = msgspec.json.schema_components([kind])
    found: list[dict[str, Any]] = []
    for name, schema in schemas[kind.__name__]["properties"].items():
        described = {part: value for part, value in schema.items() if part != "description"}
        found.append({"in": "query", "name": name, "description": schema.get("description", ""), "schema": described})
    return found


def responses(schema: dict[str, Any], problems: dict[int, str]) -> dict[int, Any]:
    """An answer of `schema`, or one of `problems`."""
    ok = {"description": "Found", "content": {"application/json": {"schema": schema}}}
    return {200: ok} | {
        status: {"description": text, "content": {"application/problem+json": {"schema": _PROBLEM}}}
        for status, text in problems.items()
    }


def describe(
    flask: APIFlask,
    shapes: Sequence[type],
    parameters: Mapping[str, list[dict[str, Any]]],
) -> None:
    """Add the schemas of answers, and the parameters of paths (written as Flask has them)."""
    _, schemas = msgspec.json.schema_components(list(dict.fromkeys(shapes)), ref_template=_REF)

    @flask.spec_processor
    def add(spec: dict[Any, Any] | str) -> dict[Any, Any] | str:
        assert isinstance(spec, dict)
        spec.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        for path, wanted in parameters.items():
            spec["paths"][_BRACKETS.sub(r"{\1}", path)]["get"]["parameters"] = [*wanted, *DEMANDS]
        return spec


def _schema(codec: KeyCodec[Any]) -> dict[str, Any]:
    if codec == LONG:
        return {"type": "integer", "format": "int64", "minimum": 0, "maximum": LONG_MAX}
    return {"type": "string", "pattern": f"^{TEXT_PATTERN}$", "minLength": 1, "maxLength": TEXT_MAX_BYTES}
