"""The place of the last key of an answer, as an opaque text."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple, Self

import msgspec

from streamstate.errors import BadParameter
from streamstate.profile.indexes.layout import SHARDS


class KeyCursor(NamedTuple):
    """A place in the order of all keys: by partition and shard, then by key in byte order.

    partitions: their number. cell: partition * SHARDS + shard. key: empty before the first key of the cell.
    """

    partitions: int
    cell: int
    key: str = ""

    def encode(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str, partitions: int) -> Self:
        """The cursor of a request; the beginning without a text. Raises `BadParameter`."""
        if not text:
            return cls(partitions, 0)
        try:
            padded = text + "=" * (-len(text) % 4)
            found = msgspec.json.decode(urlsafe_b64decode(padded.encode("ascii")), type=tuple[int, int, str])
        except (binascii.Error, UnicodeError, msgspec.DecodeError) as error:
            raise _unknown() from error
        if found[0] != partitions or not 0 <= found[1] < partitions * SHARDS:
            raise _unknown()
        return cls(*found)


def _unknown() -> BadParameter:
    return BadParameter("cursor: this is no cursor of the present state; begin anew without a cursor")
