"""The gateway's OpenAPI document: the paths of the gateway and of every service, with joined answers and names."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from services.gateway.names import add, name_of, named
from streamstate.keys import CODECS, LONG
from streamstate.profile.rules.crossings import RULES
from streamstate.view import ADMIN, NamedIds
from streamstate.web.http import events
from streamstate.web.http.events import ServerSentEvent
from streamstate.web.http.request import JSON
from streamstate.web.partition_map import PATH, ViewEntry
from streamstate.web.server import responses
from streamstate.web.server.openapi import FOUND, MANY, Routes
from streamstate.web.server.parameters import example_key, many_operations, parameter
from streamstate.web.server.responses import Answer, Document, ref

SPEC = "/openapi.json"
USERS = "users"
"""The name of users among the views of `/v1/many`."""

USER = f"/v1/{USERS}/{{key}}"
USER_STREAM = f"{USER}/stream"
PROFILE = "profile"
"""The type of the events of a user."""

_CHOICE = "the parts of the answer, separated by commas"
_NAME = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "null when none is known"}
_WARNINGS = {"type": "array", "items": {"type": "string"}, "description": "what could not be had, or not in full"}


class UserProfile(msgspec.Struct):
    """What is known of a user: the members of its parts, and `warnings` of what could not be had, or not in full."""

    warnings: list[str]


PARTS = {**parameter("query", "parts", _CHOICE), "schema": ref("schemas", "Parts"), "explode": False}


def merged(routes: Routes, own: Document, documents: Iterable[bytes], views: Sequence[ViewEntry]) -> bytes:
    """The document `own` of `routes` with the paths and schemas of the services' `documents`.

    A path of the gateway has precedence. The document of a silent service is empty. `views` are of all services.
    """
    paths: dict[str, Document] = {}
    schemas: dict[str, Document] = {}
    scopes = {_path(view): view.scope for view in views}
    for service in map(msgspec.json.decode, filter(None, documents)):
        for path, item in service["paths"].items():
            if path.startswith("/v1/") and path != MANY:
                scope = scopes.get(path, ADMIN)
                paths[path] = {"get": routes.completed(path, item["get"], scope)}
                if _has_stream(path, scopes):
                    operation = _streamed(item["get"], path.rpartition("/")[2])
                    paths[f"{path}/stream"] = {"get": routes.completed(path, operation, scope)}
        schemas |= service["components"]["schemas"]
    answers = _joined(paths, [view for view in views if _path(view) in paths])
    parts = [view for view in views if view.part and view.name in answers]
    schemas |= own["components"]["schemas"] | _of_profiles(parts, answers, own["components"]["schemas"])
    paths |= own["paths"] | _of_users(own["paths"], parts, answers, paths)
    paths[MANY] = _many(paths[MANY], [view for view in views if not view.anywhere], answers)
    info = {**own["info"], "title": "User profiles"}
    components = {**own["components"], "schemas": schemas}
    return msgspec.json.encode({**own, "info": info, "paths": paths, "components": components})


def _path(view: ViewEntry) -> str:
    return view.path.replace("<key>", "{key}")


def _has_stream(path: str, views: Container[str]) -> bool:
    """Whether `/stream` behind `path` is a stream for clients of its answers, rather than a key or of crossings.

    An owner map has the name of its release in its path, so a switch of the release would break its clients.
    """
    if path not in views or path.endswith(PATH) or path.startswith(RULES):
        return False
    return "{" not in path and f"{path}/{{key}}" not in views


def _streamed(operation: Document, name: str) -> Document:
    """The stream of the answers to `operation` as events of the type `name`, without positions to demand."""
    shown = operation["responses"][FOUND]["content"][JSON]
    event = ServerSentEvent(name, "", msgspec.json.encode(shown["example"]))
    return {
        **operation,
        "operationId": f"{operation['operationId']}-stream",
        "summary": f"{operation['summary']}, as server-sent events: again whenever it has changed",
        "parameters": [each for each in operation["parameters"] if each["in"] == "query"],
        "responses": {**operation["responses"], FOUND: responses.found(shown["schema"], Answer(None, event))},
    }


def _joined(paths: Mapping[str, Document], views: Sequence[ViewEntry]) -> Mapping[str, Document]:
    """Describe the names in the answers of `views`; returns schemas and examples by the view's name."""
    found = {view.name: paths[_path(view)]["get"]["responses"]["200"]["content"][JSON] for view in views}
    names = {
        view.name: {CODECS[view.key].parse(example_key(view.key)): found[view.name]["example"].get("name")}
        for view in views
        if view.key
    }
    for view in views:
        if view.names:
            paths[_path(view)]["get"]["summary"] += ", with names"
            answer = found[view.name]
            answer["schema"] = {"allOf": [answer["schema"], _with_names(view.names)]}
            add(names, named(answer["example"], view.names.views))
            if view.names.empty_warnings:
                answer["example"].setdefault("warnings", [])
    return found


def _of_profiles(
    parts: Sequence[ViewEntry], answers: Mapping[str, Document], schemas: Mapping[str, Document]
) -> Mapping[str, Document]:
    """The schemas of the names of parts, and of a profile."""
    default = [view.name for view in parts if view.part and view.part.by_default]
    names = {"type": "array", "items": {"enum": [view.name for view in parts]}, "minItems": 1, "default": default}
    any_of = [_nested(view, answers[view.name]["schema"]) for view in parts] or [{}]
    return {"Parts": names, UserProfile.__name__: {**schemas[UserProfile.__name__], "anyOf": any_of}}


def _of_users(
    own: Mapping[str, Document],
    parts: Sequence[ViewEntry],
    answers: Mapping[str, Document],
    paths: Mapping[str, Document],
) -> Mapping[str, Document]:
    """The operations about a user, with an example, and the parameters of the parts."""
    further = [
        described
        for view in parts
        for described in paths[_path(view)]["get"]["parameters"]
        if view.part and described["name"] in view.part.parameters
    ]
    profile = _profile([view for view in parts if view.part and view.part.by_default], answers)
    user, stream = own[USER]["get"], own[USER_STREAM]["get"]
    event = {"event": PROFILE, "id": "listening-events:3=17", "data": msgspec.json.encode(profile).decode()}
    return {
        USER: {
            **own[USER],
            "get": {**_with_example(user, JSON, profile), "parameters": [*user["parameters"], *further]},
        },
        USER_STREAM: {"get": _with_example(stream, events.CONTENT_TYPE, event)},
    }


def _profile(parts: Sequence[ViewEntry], answers: Mapping[str, Document]) -> Document:
    """The joined examples of `parts`."""
    members: Document = {}
    for view in parts:
        example = answers[view.name]["example"]
        members |= {view.name: example} if view.part and view.part.nested else example
    return {**members, "warnings": []}


def _nested(view: ViewEntry, schema: Document) -> Document:
    """The schema of a part's members in the joined answer."""
    if not (view.part and view.part.nested):
        return schema
    return {"type": "object", "properties": {view.name: {"anyOf": [schema, {"type": "null"}]}}}


def _many(item: Document, keyed: Sequence[ViewEntry], answers: Mapping[str, Document]) -> Document:
    parts = [view for view in keyed if view.part]
    keys = {**{view.name: view.key for view in keyed}, USERS: LONG.name}
    examples = {view.name: answers[view.name]["example"] for view in keyed if view.name in answers}
    examples[USERS] = _profile([view for view in parts if view.name in answers], answers)
    found = {view: {example_key(keys[view]): example} for view, example in examples.items()}
    operations = many_operations(item, keys, [view.name for view in parts])
    return {method: _with_example(operation, JSON, found) for method, operation in operations.items()}


def _with_example(operation: Document, content_type: str, example: Any) -> Document:
    answer = operation["responses"]["200"]
    content = {content_type: {**answer["content"][content_type], "example": example}}
    return {**operation, "responses": {**operation["responses"], "200": {**answer, "content": content}}}


def _with_names(names: NamedIds) -> Document:
    """The schema of names and warnings in an answer."""
    added: Document = {"properties": {"warnings": _WARNINGS}, "required": ["warnings"] if names.empty_warnings else []}
    for place in names.views:
        *lists, member = place.split(".")
        shape = added
        for name in lists:
            shape = shape["properties"].setdefault(name, {"items": {"properties": {}, "required": []}})["items"]
        shape["properties"][name_of(member)] = _NAME
        shape["required"].append(name_of(member))
    return added
