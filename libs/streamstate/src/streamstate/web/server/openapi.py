"""Routes whose OpenAPI document is made from the types of what they take and answer."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from apiflask import APIFlask

from streamstate.gateway import ADMIN, READ, Scope
from streamstate.keys import (
    DIGITS,
    INT,
    LONG,
    PAIR,
    PAIR_PATTERN,
    SPELLED,
    TEXT,
    TEXT_MAX_BYTES,
    TEXT_PATTERN,
    UUID,
    UUID_PATTERN,
    KeyCodec,
)
from streamstate.settings import LEAST_STALENESS_MS
from streamstate.web.http import events
from streamstate.web.http.deadline import ENTRIES_PATTERN, HEADER, MAX_STALENESS, MIN_POSITION, MOST_MS
from streamstate.web.http.events import Stream
from streamstate.web.http.problems import CONTENT_TYPE, MOST_KEYS, MOST_KEYS_POSTED
from streamstate.web.http.request import JSON, Response

MANY = "/v1/many"
REF = "#/components/schemas/{name}"
_PLACE = re.compile("<([a-z]+)>")
_KEYS: Mapping[str, dict[str, Any]] = {
    **{
        name: {"type": "integer", "format": f"int{8 * ids.size}", "minimum": 0, "maximum": ids.most}
        for name, ids in ((LONG.name, LONG), (INT.name, INT), (DIGITS.name, DIGITS.number))
    },
    **{spelled.name: {"type": "string", "minLength": 1} for spelled in SPELLED},
    TEXT.name: {"type": "string", "pattern": f"^{TEXT_PATTERN}$", "minLength": 1, "maxLength": TEXT_MAX_BYTES},
    PAIR.name: {"type": "string", "pattern": f"^{PAIR_PATTERN}$", "minLength": 3, "maxLength": TEXT_MAX_BYTES},
    UUID.name: {"type": "string", "pattern": f"^{UUID_PATTERN}$", "format": "uuid"},
}
_NOT_READY = {503: "Not ready yet; see Retry-After", 504: "The deadline passed"}
_BODY_PROBLEMS = {408: "The body came too slowly", 413: "The body is too large"}
_PROBLEMS = {
    400: "The request is malformed",
    404: "The key is unknown",
    421: "Another instance owns the key",
    **_NOT_READY,
}

Handler = Callable[..., Awaitable[Response | Stream]]
"""A coroutine function that gets the request and, by name, what the path has in brackets; `Asgi` awaits it."""

Parameter = dict[str, Any]


class ProblemDetails(msgspec.Struct):
    """RFC 9457; `detail` says what to do next."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""


def parameter(place: str, name: str, description: str = "", *, required: bool = False, **schema: Any) -> Parameter:
    return {"in": place, "name": name, "description": description, "required": required, "schema": schema}


_IN_TIME = "milliseconds within which an answer is wanted"
_REACHED = "topic:partition=offset, separated by commas: the state must have reached these next offsets"
_BEHIND = "milliseconds that the state may be behind its topics"
DEMANDS = [
    parameter("header", HEADER, _IN_TIME, type="integer", minimum=1, maximum=MOST_MS),
    parameter("header", MIN_POSITION, _REACHED, type="string", pattern=f"^{ENTRIES_PATTERN}$"),
    parameter("header", MAX_STALENESS, _BEHIND, type="integer", minimum=LEAST_STALENESS_MS, maximum=MOST_MS),
]

LAST = parameter("header", events.LAST_EVENT_ID, "the id of the last event that the client has", type="string")


class Routes(APIFlask):
    """The routes of a process, with their document at /openapi.json."""

    def __init__(self, service: str) -> None:
        super().__init__(f"streamstate.{service}", title=service, version="1", json_errors=False, docs_path=None)
        self.config["OPENAPI_VERSION"] = "3.1.0"
        # An empty key is an error, not a redirect.
        self.url_map.merge_slashes = False
        self.scopes: dict[str, Scope] = {"openapi.spec": READ}
        """What a caller must be allowed, by endpoint; `ADMIN` for one that is not here."""
        self.open_paths: set[str] = set()
        """What is answered to anybody."""
        self.paths: dict[str, Any] = {}
        self.schemas: dict[str, Any] = {}
        own = {"paths": self.paths, "components": {"schemas": self.schemas}}
        self.spec_processor(lambda spec: {**cast("Any", spec), **own})

    def hidden(self, path: str, name: str, handler: Handler, scope: Scope = ADMIN) -> None:
        """Add a route that the document does not show."""
        self.scopes[name] = scope
        self.add_url_rule(path, name, cast("Any", handler))

    def process(self, path: str, name: str, handler: Handler, summary: str, answers: Any = dict[str, Any]) -> None:
        """Add a route that tells of the process itself, or of others, and demands nothing of a state."""
        self._documented(path, answers, _NOT_READY, {"operationId": name, "summary": summary})
        self.hidden(path, name, handler)

    def read(
        self,
        path: str,
        name: str,
        handler: Handler,
        summary: str,
        answers: Any,
        key: KeyCodec[Any] | None = None,
        query: Sequence[Parameter] = (),
        scope: Scope = ADMIN,
    ) -> None:
        """Add a route that answers with `answers`, a type; `key` is the type of the key in its path."""
        places = _places(path, key)
        problems = {status: text for status, text in _PROBLEMS.items() if places or status != 404}
        parameters = [*places, *query, *DEMANDS]
        operation = {"operationId": name, "summary": summary, "parameters": parameters}
        self._documented(path, answers, problems, operation)
        self.hidden(path, name, handler, scope)

    def stream(
        self,
        path: str,
        name: str,
        handler: Handler,
        summary: str,
        answers: Any,
        key: KeyCodec[Any] | None = None,
        query: Sequence[Parameter] = (),
        scope: Scope = ADMIN,
    ) -> None:
        """Add a route that answers with events, each with `answers`, a type, as its data; the rest is as in `read`."""
        places = _places(path, key)
        operation = {"operationId": name, "summary": summary, "parameters": [*places, *query]}
        self._documented(path, answers, {400: _PROBLEMS[400], **_NOT_READY}, operation)
        found = self.paths[_PLACE.sub(r"{\1}", path)]["get"]["responses"]["200"]
        data = {"type": "string", "contentMediaType": JSON, "contentSchema": found["content"][JSON]["schema"]}
        event = {"properties": {"event": {"type": "string"}, "id": {"type": "string"}, "data": data}}
        found["content"] = {events.CONTENT_TYPE: {"schema": {"type": "object", **event}}}
        self.hidden(path, name, handler, scope)

    def many(self, handler: Handler, keys: Mapping[str, str]) -> None:
        """Add the routes for many keys, given the name of the key's type by view."""
        summary = "Many keys at once: answers by view and key, null for a key that is unknown"
        answers = dict[str, dict[str, Any]]
        self.read(MANY, "many", handler, summary, answers, scope=READ)
        posting = {"operationId": "post-many", "summary": summary, "parameters": DEMANDS}
        self._documented(MANY, answers, {400: _PROBLEMS[400], **_BODY_PROBLEMS, **_NOT_READY}, posting, "post")
        self.paths[MANY] = many_operations(self.paths[MANY], keys)
        self.add_url_rule(MANY, "many", methods=["POST"])

    def _documented(
        self, path: str, answers: Any, problems: Mapping[int, str], operation: dict[str, Any], method: str = "get"
    ) -> None:
        (answer, problem), schemas = msgspec.json.schema_components([answers, ProblemDetails], ref_template=REF)
        responses = {"200": _response("Found", JSON, answer)}
        responses |= {str(status): _response(text, CONTENT_TYPE, problem) for status, text in problems.items()}
        self.paths.setdefault(_PLACE.sub(r"{\1}", path), {})[method] = {**operation, "responses": responses}
        for shape in schemas.values():
            # A default is encoded like any other value: only what may be UNSET can be missing from an answer.
            shape["required"] = [
                name for name, schema in shape["properties"].items() if name in shape["required"] or "default" in schema
            ]
        self.schemas |= schemas


def _places(path: str, key: KeyCodec[Any] | None) -> list[Parameter]:
    """The parameters in `path`, each of the type of `key`, or a text."""
    schema = {"type": "string"} if key is None else _KEYS[key.name]
    return [parameter("path", place, required=True, **schema) for place in _PLACE.findall(path)]


def _response(description: str, content_type: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {content_type: {"schema": schema}}}


def many_operations(item: Mapping[str, Any], keys: Mapping[str, str], parts: Sequence[str] = ()) -> dict[str, Any]:
    """The operations of `item` for many keys, given the name of the key's type by view; parts: what may be chosen."""
    chosen: dict[str, Any] = {"parts": {"type": "array", "items": {"enum": parts}}} if parts else {}
    views = {view: {"type": "array", "items": _KEYS[key], "maxItems": MOST_KEYS} for view, key in keys.items()}
    query = [parameter("query", name, **schema) for name, schema in {**views, **chosen}.items()]
    # JavaScript writes numbers beyond 2^53 as strings.
    posted = {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": MOST_KEYS_POSTED}
    properties = {**dict.fromkeys(keys, posted), **chosen}
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    return {
        "get": {**item["get"], "parameters": [*query, *item["get"]["parameters"]]},
        "post": {**item["post"], "requestBody": {"required": True, "content": {JSON: {"schema": body}}}},
    }


def query_parameters(kind: type[msgspec.Struct]) -> list[Parameter]:
    """The parameters that `parameters.parse` takes for `kind`."""
    _, schemas = msgspec.json.schema_components([kind])
    return [parameter("query", name, **schema) for name, schema in schemas[kind.__name__]["properties"].items()]
