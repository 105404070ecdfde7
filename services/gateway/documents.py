"""The gateway's OpenAPI document: its own paths and those of every service, with what the gateway adds to answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from services.gateway.names import name_of
from streamstate.gateway import NamedIds
from streamstate.keys import LONG
from streamstate.web.http.request import JSON
from streamstate.web.partition_map import ViewEntry
from streamstate.web.server.openapi import MANY, REF, many_operations, parameter

SPEC = "/openapi.json"
USERS = "users"
"""What the keys of users are called among those of views."""

USER = f"/v1/{USERS}/{{key}}"

_CHOICE = "the parts of the answer, separated by commas"
_NAME = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "null when none is known"}
_WARNINGS = {"type": "array", "items": {"type": "string"}, "description": "what could not be had, or not in full"}

Schema = dict[str, Any]


class UserProfile(msgspec.Struct):
    """What is known of a user: the members of its parts, and `warnings` of what could not be had, or not in full."""

    warnings: list[str]


PARTS = {**parameter("query", "parts", _CHOICE), "schema": {"$ref": REF.format(name="Parts")}, "explode": False}


def merged(own: Mapping[str, Any], documents: Iterable[bytes], views: Sequence[ViewEntry]) -> bytes:
    """The document `own` with the paths and schemas of the services' `documents`; where both have one, its own stays.

    A service that gave no document has an empty one. `views` are those of all services.
    """
    paths: dict[str, Any] = {}
    schemas: dict[str, Schema] = {}
    for service in map(msgspec.json.decode, filter(None, documents)):
        paths |= {path: item for path, item in service["paths"].items() if path.startswith("/v1/")}
        schemas |= service["components"]["schemas"]
    schemas |= own["components"]["schemas"]
    _add_joins(paths, schemas, views)
    keyed = [view for view in views if not view.anywhere]
    keys = {**{view.name: view.key for view in keyed}, USERS: LONG.name}
    many = many_operations(own["paths"][MANY], keys, [view.name for view in keyed if view.part])
    user = own["paths"][USER]["get"]
    of_parts = {"get": {**user, "parameters": [*user["parameters"], *_parameters(paths, views)]}}
    paths |= {**own["paths"], MANY: many, USER: of_parts}
    return msgspec.json.encode({**own, "paths": paths, "components": {"schemas": schemas}})


def _parameters(paths: Mapping[str, Any], views: Sequence[ViewEntry]) -> list[Schema]:
    """The parameters that a request for a profile may have, since parts of it do."""
    return [
        described
        for view in views
        if view.part and (item := paths.get(_path(view)))
        for described in item["get"]["parameters"]
        if described["name"] in view.part.parameters
    ]


def _path(view: ViewEntry) -> str:
    return view.path.replace("<key>", "{key}")


def _add_joins(paths: Mapping[str, Any], schemas: dict[str, Schema], views: Sequence[ViewEntry]) -> None:
    """Describe the names in the answers of `views`, and the parts of a profile."""
    parts: dict[str, Schema] = {}
    for view in views:
        if (item := paths.get(_path(view))) is None:
            continue
        content = item["get"]["responses"]["200"]["content"][JSON]
        if view.names:
            item["get"]["summary"] += ", with names"
            content["schema"] = {"allOf": [content["schema"], _with_names(view.names)]}
        if view.part:
            parts[view.name] = content["schema"]
    default = [view.name for view in views if view.part and view.part.by_default]
    schemas["Parts"] = {"type": "array", "items": {"enum": list(parts)}, "minItems": 1, "default": default}
    schemas["UserProfile"] = {**schemas["UserProfile"], "anyOf": list(parts.values()) or [{}]}


def _with_names(names: NamedIds) -> Schema:
    """What the gateway adds to an answer."""
    added: Schema = {"properties": {"warnings": _WARNINGS}, "required": ["warnings"] if names.empty_warnings else []}
    for place in names.views:
        *lists, member = place.split(".")
        shape = added
        for name in lists:
            shape = shape["properties"].setdefault(name, {"items": {"properties": {}, "required": []}})["items"]
        shape["properties"][name_of(member)] = _NAME
        shape["required"].append(name_of(member))
    return added
