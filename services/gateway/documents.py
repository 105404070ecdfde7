"""The gateway's OpenAPI document: its own paths and those of every service."""

from typing import Any

import msgspec

from services.gateway.owners import Owners
from services.gateway.profile import UserProfile
from streamstate.web import openapi

SPEC = "/openapi.json"


def profile(name: str, summary: str) -> dict[str, Any]:
    """What to say of the route `name`, which answers a merged profile."""
    reference = {"$ref": f"#/components/schemas/{UserProfile.__name__}"}
    return {
        "summary": summary,
        "operation_id": name,
        "responses": openapi.responses(reference, openapi.PROBLEMS),
    }


def merge(spec: dict[str, Any], owners: Owners) -> None:
    """Add the paths and schemas of every service that answers to the gateway's document; its own paths come first."""
    many: list[Any] = []
    for service in owners.addresses:
        other = msgspec.json.decode(owners.document(service, SPEC) or b"{}")
        paths = {path: item for path, item in other.get("paths", {}).items() if path.startswith("/v1/")}
        many += paths.pop(openapi.MANY, {}).get("get", {}).get("parameters", [])
        spec["paths"] = paths | spec["paths"]
        spec["components"]["schemas"] |= other.get("components", {}).get("schemas", {})
    spec["paths"][openapi.MANY]["get"]["parameters"] = many
