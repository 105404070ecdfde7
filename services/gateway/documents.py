"""The gateway's OpenAPI document: its own paths and those of every service."""

from collections.abc import Iterable
from typing import Any

import msgspec
from apiflask import APIFlask

from streamstate.web.server import openapi

SPEC = "/openapi.json"


def merged(flask: APIFlask, documents: Iterable[bytes]) -> bytes:
    """The document of `flask` with the paths and schemas of the services' `documents`; its own paths come first."""
    with flask.app_context():
        spec = flask.spec
    assert isinstance(spec, dict)
    many: list[Any] = []
    for document in documents:
        other = msgspec.json.decode(document or b"{}")
        paths = {path: item for path, item in other.get("paths", {}).items() if path.startswith("/v1/")}
        given = paths.pop(openapi.MANY, {}).get("get", {}).get("parameters", [])
        many += [one for one in given if one["in"] == "query"]
        spec["paths"] = paths | spec["paths"]
        spec["components"]["schemas"] |= other.get("components", {}).get("schemas", {})
    spec["paths"][openapi.MANY]["get"]["parameters"] = [*many, *openapi.DEMANDS]
    return msgspec.json.encode(spec)
