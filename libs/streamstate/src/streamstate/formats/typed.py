"""JSON values as a service's own types."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from streamstate.errors import BadRecord

V = TypeVar("V")


def json_decoder(kind: type[V]) -> Callable[[bytes | None], V]:
    """A strict decoder of JSON values: exactly the types of `kind`, further members ignored, null refused."""
    decode = msgspec.json.Decoder(kind).decode

    def strict(value: bytes | None) -> V:
        if value is None:
            msg = "the value is null"
            raise BadRecord(msg)
        return decode(value)

    return strict
