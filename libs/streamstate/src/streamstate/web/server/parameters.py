"""The inputs of requests in the OpenAPI document: keys, parameters and bodies."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

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
from streamstate.web.http.demands import ENTRIES, ENTRIES_PATTERN, HEADER, MAX_STALENESS, MIN_POSITION, MOST_MS
from streamstate.web.http.problems import MOST_KEYS, MOST_KEYS_POSTED
from streamstate.web.http.request import JSON

PLACE = re.compile("<([a-z]+)>")
"""A parameter in a path."""

_NUMBERS = ((LONG.name, LONG), (INT.name, INT), (DIGITS.name, DIGITS.number))
_KEYS: Mapping[str, dict[str, Any]] = {
    **{
        name: {"type": "integer", "format": f"int{8 * ids.size}", "minimum": 0, "maximum": ids.most, "examples": [42]}
        for name, ids in _NUMBERS
    },
    **{spelled.name: {"type": "string", "minLength": 1, "examples": ["42"]} for spelled in SPELLED},
    TEXT.name: {
        "type": "string",
        "pattern": f"^{TEXT_PATTERN}$",
        "minLength": 1,
        "maxLength": TEXT_MAX_BYTES,
        "examples": ["anna"],
    },
    PAIR.name: {
        "type": "string",
        "pattern": f"^{PAIR_PATTERN}$",
        "minLength": 3,
        "maxLength": TEXT_MAX_BYTES,
        "examples": ["berlin:bread"],
    },
    UUID.name: {
        "type": "string",
        "pattern": f"^{UUID_PATTERN}$",
        "format": "uuid",
        "examples": ["00000000-0000-4000-8000-000000000042"],
    },
}

Parameter = dict[str, Any]


def parameter(place: str, name: str, description: str = "", *, required: bool = False, **schema: Any) -> Parameter:
    return {"in": place, "name": name, "description": description, "required": required, "schema": schema}


_IN_TIME = "deadline of the answer, in milliseconds"
_REACHED = f"{ENTRIES}: the next offsets that the state must have reached, in the form of Position"
_BEHIND = "maximum milliseconds of the state behind its topics"
DEMANDS = [
    parameter("header", HEADER, _IN_TIME, type="integer", minimum=1, maximum=MOST_MS),
    parameter("header", MIN_POSITION, _REACHED, type="string", pattern=f"^{ENTRIES_PATTERN}$"),
    parameter("header", MAX_STALENESS, _BEHIND, type="integer", minimum=LEAST_STALENESS_MS, maximum=MOST_MS),
]

LAST = parameter("header", events.LAST_EVENT_ID, "the id of the client's last event", type="string")


def places(path: str, key: KeyCodec[Any] | None) -> list[Parameter]:
    """The parameters in `path`, each of the type of `key`, or a text."""
    schema = {"type": "string"} if key is None else _described(key.name)
    return [parameter("path", place, required=True, **schema) for place in PLACE.findall(path)]


def _described(key: str) -> dict[str, Any]:
    """The schema of a key of the type named `key`: the name of a `Framed` ends with the name of its member's type."""
    return _KEYS[key.rpartition(":")[2]]


def of_struct(kind: type[msgspec.Struct]) -> list[Parameter]:
    """The parameters parsed by `http.parameters.parse` for `kind`; a list that may not be empty is required."""
    _, schemas = msgspec.json.schema_components([kind])
    members = schemas[kind.__name__]["properties"].items()
    return [parameter("query", name, required="minItems" in schema, **schema) for name, schema in members]


def example_key(key: str) -> str:
    """An example of a key of the type named `key`."""
    return str(_described(key)["examples"][0])


def many_operations(item: Mapping[str, Any], keys: Mapping[str, str], parts: Sequence[str] = ()) -> dict[str, Any]:
    """The operations of `item` for many keys, by the key's type of each view; `parts` are the parts to choose from."""
    chosen: dict[str, Any] = {"parts": {"type": "array", "items": {"enum": parts}}} if parts else {}
    views = {view: {"type": "array", "items": _described(key), "maxItems": MOST_KEYS} for view, key in keys.items()}
    query = [parameter("query", name, **schema) for name, schema in {**views, **chosen}.items()]
    # JavaScript writes numbers beyond 2^53 as strings.
    posted = {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": MOST_KEYS_POSTED}
    properties = {**dict.fromkeys(keys, posted), **chosen}
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    wanted = {view: [example_key(key)] for view, key in keys.items()}
    return {
        "get": {**item["get"], "parameters": [*query, *item["get"]["parameters"]]},
        "post": {
            **item["post"],
            "requestBody": {"required": True, "content": {JSON: {"schema": body, "example": wanted}}},
        },
    }
