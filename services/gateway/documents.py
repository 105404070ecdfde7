"""The gateway's OpenAPI document: its own paths and those of every service."""

from typing import Any

import msgspec

from services.gateway.owners import Owners
from streamstate.web import openapi

SPEC = "/openapi.json"


def merge(spec: dict[str, Any], owners: Owners) -> None:
    """Add the paths and schemas of every service that answers to the gateway's document; its own paths come first."""
    many: list[Any] = []
    for service in owners.addresses:
        other = msgspec.json.decode(owners.document(service, SPEC) or b"{}")
        paths = {path: item for path, item in other.get("paths", {}).items() if path.startswith("/v1/")}
        given = paths.pop(openapi.MANY, {}).get("get", {}).get("parameters", [])
        many += [one for one in given if one["in"] == "query"]
        spec["paths"] = paths | spec["paths"]
        spec["components"]["schemas"] |= other.get("components", {}).get("schemas", {})
    spec["paths"][openapi.MANY]["get"]["parameters"] = [*many, *openapi.DEMANDS]
