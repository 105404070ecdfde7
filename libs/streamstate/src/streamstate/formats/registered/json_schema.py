"""JSON Schema: values are JSON. Producers have validated values by the schema; readers validate by their own types."""

from collections.abc import Callable
from typing import Any

import msgspec

from streamstate.formats.plain import read_json
from streamstate.formats.registered.registry import Schema


def reader(_schema: Schema, start: int) -> Callable[[bytes], Any]:
    """Reads a value from its byte `start` on."""
    return lambda raw: read_json(raw[start:])


def writer(_schema: Schema) -> Callable[[Any], bytes]:
    """Writes an object."""
    return msgspec.json.encode
