"""Keys: how they travel in Kafka, how they are written in a URL, and which partition holds them."""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from confluent_kafka import murmur2

from streamstate.errors import BadKey, BadRecord

K = TypeVar("K")

LONG_MAX = 2**63 - 1
TEXT_MAX_BYTES = 1024
_CONTROL = r"\u0000-\u001f\u007f-\u009f"
TEXT_PATTERN = f"[^{_CONTROL}]+"
"""Without control characters."""

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
# A surrogate alone is no character, and has no UTF-8.
_TEXT = re.compile(rf"[^{_CONTROL}\ud800-\udfff]+")
_LONG = struct.Struct(">q")


class KeyCodec(Protocol[K]):
    """One key type in its three spellings: Python value, Kafka bytes, URL text."""

    @property
    def name(self) -> str:
        """The name of the type in settings and in `/processors`."""
        ...

    def encode(self, key: K) -> bytes:
        """The bytes that a producer writes for `key`."""
        ...

    def decode(self, raw: bytes | None) -> K:
        """The key of a record; raises `BadRecord` when the bytes are not of this type."""
        ...

    def parse(self, text: str) -> K:
        """The key named in a URL; raises `BadKey` when the text is not of this type."""
        ...


@dataclass(frozen=True)
class Long:
    """Ids from 0 to 2^63 - 1: 8 bytes big-endian in Kafka (its LongSerializer), plain decimal digits in a URL."""

    name: str = "long"

    def encode(self, key: int) -> bytes:
        return _LONG.pack(key)

    def decode(self, raw: bytes | None) -> int:
        if raw is None or len(raw) != _LONG.size:
            length = "null" if raw is None else f"{len(raw)} bytes"
            msg = f"the key must be a long in 8 bytes, big-endian; found {length}"
            raise BadRecord(msg)
        key = int.from_bytes(raw, "big", signed=True)
        if key < 0:
            msg = "the key must be 0 or greater"
            raise BadRecord(msg)
        return key

    def parse(self, text: str) -> int:
        if not _DECIMAL.fullmatch(text) or int(text) > LONG_MAX:
            msg = f"an id is a whole number from 0 to {LONG_MAX}, in plain digits without sign or leading zeros"
            raise BadKey(msg)
        return int(text)


@dataclass(frozen=True)
class Text:
    """Strings of 1 to 1,024 bytes of UTF-8, the same in Kafka and (percent-encoded) in a URL."""

    name: str = "text"

    def encode(self, key: str) -> bytes:
        return key.encode()

    def decode(self, raw: bytes | None) -> str:
        if not raw or len(raw) > TEXT_MAX_BYTES:
            msg = f"the key must be a string of 1 to {TEXT_MAX_BYTES} bytes; found {'none' if not raw else len(raw)}"
            raise BadRecord(msg)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            msg = f"the key is not UTF-8: {error.reason} at byte {error.start}"
            raise BadRecord(msg) from error

    def parse(self, text: str) -> str:
        if not _TEXT.fullmatch(text) or len(text.encode()) > TEXT_MAX_BYTES:
            msg = f"a key is a string of 1 to {TEXT_MAX_BYTES} bytes without control characters"
            raise BadKey(msg)
        return text


LONG = Long()
TEXT = Text()
CODECS: Mapping[str, KeyCodec[Any]] = {codec.name: codec for codec in (LONG, TEXT)}


def partition_of(key: bytes, partitions: int) -> int:
    """The partition (0 to `partitions` - 1) that Kafka's DefaultPartitioner gives a record with this key."""
    return murmur2(key, partitions)


def sortable(number: int) -> str:
    """Digits of `number` (0 to 2^63 - 1) behind a letter for their count, so that text order is numeric order.

    >>> sorted([sortable(10), sortable(9), sortable(0)])
    ['a0', 'a9', 'b10']
    """
    digits = str(number)
    return f"{chr(96 + len(digits))}{digits}"


def unsortable(text: str) -> int:
    """The number of `sortable`."""
    return int(text[1:])
