"""The gateway's OpenAPI document: its own paths and those of every service."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streamstate.web.server.openapi import MANY

SPEC = "/openapi.json"


def merged(own: Mapping[str, Any], documents: Iterable[bytes]) -> bytes:
    """The document `own` with the paths and schemas of the services' `documents`; where both have one, its own stays.

    A service that gave no document has an empty one.
    """
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    keys: list[Any] = []
    for service in map(msgspec.json.decode, filter(None, documents)):
        many = service["paths"].get(MANY, {"get": {"parameters": []}})
        keys += (parameter for parameter in many["get"]["parameters"] if parameter["in"] == "query")
        paths |= {path: item for path, item in service["paths"].items() if path.startswith("/v1/")}
        schemas |= service["components"]["schemas"]
    many = own["paths"][MANY]["get"]
    paths |= {**own["paths"], MANY: {"get": {**many, "parameters": [*keys, *many["parameters"]]}}}
    schemas |= own["components"]["schemas"]
    return msgspec.json.encode({**own, "paths": paths, "components": {"schemas": schemas}})
