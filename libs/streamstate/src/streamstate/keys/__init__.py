"""Keys of records: encoding in Kafka, spelling in a URL, partition; and markers, the identities of derived records."""

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from confluent_kafka import consistent, fnv1a, murmur2

from streamstate.errors import BadKey, BadRecord
from streamstate.keys.framed import Codecs

K = TypeVar("K")

TEXT_MAX_BYTES = 1024
_CONTROL = r"\u0000-\u001f\u007f-\u009f"
TEXT_PATTERN = f"[^{_CONTROL}]+"
"""Without control characters."""
PAIR_PATTERN = f"[^:{_CONTROL}]+:{TEXT_PATTERN}"
UUID_PATTERN = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_WHOLE = "-?(0|[1-9][0-9]*)"
# A surrogate alone is no character, and has no UTF-8.
_TEXT = re.compile(rf"[^{_CONTROL}\ud800-\udfff]+")


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
class Number:
    """Ids from 0 to `most`: big-endian in `size` bytes in Kafka, plain decimal digits in a URL."""

    name: str
    size: int

    @property
    def most(self) -> int:
        """The greatest signed Java number of this size."""
        return (1 << (8 * self.size - 1)) - 1

    def encode(self, key: int) -> bytes:
        return key.to_bytes(self.size, "big", signed=True)

    def decode(self, raw: bytes | None) -> int:
        if raw is None or len(raw) != self.size:
            length = "null" if raw is None else f"{len(raw)} bytes"
            msg = f"the key must be of type {self.name} in {self.size} bytes, big-endian; found {length}"
            raise BadRecord(msg)
        key = int.from_bytes(raw, "big", signed=True)
        if key < 0:
            msg = "the key must be 0 or greater"
            raise BadRecord(msg)
        return key

    def parse(self, text: str) -> int:
        if not _DECIMAL.fullmatch(text) or int(text) > self.most:
            msg = f"an id is a whole number from 0 to {self.most}, in plain digits without sign or leading zeros"
            raise BadKey(msg)
        return int(text)


@dataclass(frozen=True)
class Texts:
    """Strings of 1 to 1,024 bytes of UTF-8, the same in Kafka and (percent-encoded) in a URL.

    form: the pattern of valid strings. described: the pattern in words, for errors.
    """

    name: str
    form: re.Pattern[str]
    described: str

    def encode(self, key: str) -> bytes:
        return key.encode()

    def decode(self, raw: bytes | None) -> str:
        if not raw or len(raw) > TEXT_MAX_BYTES:
            msg = f"the key must be a string of 1 to {TEXT_MAX_BYTES} bytes; found {'none' if not raw else len(raw)}"
            raise BadRecord(msg)
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            msg = f"the key is not UTF-8: {error.reason} at byte {error.start}"
            raise BadRecord(msg) from error
        if not self.form.fullmatch(text):
            msg = f"the key must be {self.described}"
            raise BadRecord(msg)
        return text

    def parse(self, text: str) -> str:
        if not (_TEXT.fullmatch(text) and self.form.fullmatch(text)) or len(text.encode()) > TEXT_MAX_BYTES:
            msg = f"a key is {self.described}"
            raise BadKey(msg)
        return text


@dataclass(frozen=True)
class Digits:
    """The ids of `number`, written by a string serializer in plain decimal digits."""

    name: str
    number: Number

    def encode(self, key: int) -> bytes:
        return b"%d" % key

    def decode(self, raw: bytes | None) -> int:
        try:
            return self.number.parse((raw or b"").decode())
        except (UnicodeDecodeError, BadKey) as error:
            msg = f"the key must be an id from 0 to {self.number.most} in plain digits; found {(raw or b'')[:20]!r}"
            raise BadRecord(msg) from error

    def parse(self, text: str) -> int:
        return self.number.parse(text)


@dataclass(frozen=True)
class Spelled:
    """Text that a serializer of numbers or bytes writes in another form.

    unpack: bytes → text. pack: text → bytes, for texts of the pattern `form`. Both raise ValueError or struct.error for
        invalid input, and `parse` maps all spellings of a text to the text from `unpack`.
    """

    name: str
    form: str
    pack: Callable[[str], bytes]
    unpack: Callable[[bytes], str]

    def encode(self, key: str) -> bytes:
        return self.pack(key)

    def decode(self, raw: bytes | None) -> str:
        try:
            return self.unpack(raw or b"")
        except (ValueError, struct.error) as error:
            msg = f"the key must be of type {self.name}; found {(raw or b'')[:20]!r}"
            raise BadRecord(msg) from error

    def parse(self, text: str) -> str:
        try:
            # Python's own constructors also take spaces, underscores and digits of any script.
            if not re.fullmatch(self.form, text):
                raise ValueError(text)
            return self.unpack(self.pack(text))
        except (ValueError, struct.error) as error:
            msg = f"a key is of type {self.name}: {text[:20]!r} is none"
            raise BadKey(msg) from error


LONG = Number("long", 8)
"""Kafka's LongSerializer."""

LONG_MAX = LONG.most

INT = Number("int", 4)
"""Kafka's IntegerSerializer."""

TEXT = Texts("text", re.compile(".+", re.DOTALL), f"a string of 1 to {TEXT_MAX_BYTES} bytes without control characters")

UUID = Texts("uuid", re.compile(UUID_PATTERN), "a UUID in its 36 characters, in lower case")
"""Kafka's UUIDSerializer."""

PAIR = Texts(
    "pair",
    re.compile("[^:]+:.+", re.DOTALL),
    f"two parts with a colon between them, the first without a colon, in 3 to {TEXT_MAX_BYTES} bytes without control "
    "characters",
)
"""A key of two parts, such as `store:item`. The first colon ends the first part, so nothing is escaped."""

DIGITS = Digits("digits", LONG)
"""Ids written by Kafka's StringSerializer."""


def _number(layout: str) -> tuple[Callable[[str], bytes], Callable[[bytes], str]]:
    def pack(text: str) -> bytes:
        return struct.pack(layout, int(text))

    def unpack(raw: bytes) -> str:
        return str(struct.unpack(layout, raw)[0])

    return pack, unpack


def _pack_double(text: str) -> bytes:
    return struct.pack(">d", float(text))


def _unpack_double(raw: bytes) -> str:
    (number,) = struct.unpack(">d", raw)
    if not math.isfinite(number):
        raise ValueError(number)
    return repr(number)


def _hex(raw: bytes) -> str:
    if not 1 <= len(raw) <= TEXT_MAX_BYTES:
        raise ValueError(len(raw))
    return raw.hex()


SPELLED = (
    Spelled("long-text", _WHOLE, *_number(">q")),
    Spelled("int-text", _WHOLE, *_number(">i")),
    Spelled("double", rf"{_WHOLE}(\.[0-9]+)?([eE][-+]?[0-9]+)?", _pack_double, _unpack_double),
    Spelled("bytes", "[0-9a-fA-F]+", bytes.fromhex, _hex),
)
"""Text forms of the bytes of Kafka's serializers: a number's digits, bytes in hex."""

CODECS: Mapping[str, KeyCodec[Any]] = Codecs(
    (codec.name, codec) for codec in (LONG, INT, TEXT, UUID, PAIR, DIGITS, *SPELLED)
)
"""By name; also `Framed` codecs, which are not listed."""


MURMUR2 = "murmur2"
"""The partitioner of Kafka's Java clients, and of every topic that this project writes."""

PARTITIONERS: Mapping[str, Callable[[bytes, int], int]] = {MURMUR2: murmur2, "crc32": consistent, "fnv1a": fnv1a}
"""Key, partition count → partition. `crc32` is librdkafka's default, which spreads empty keys over all partitions.

`fnv1a` is sarama's: the absolute value of the signed 32-bit FNV-1a.
"""


def partition_of(key: bytes, partitions: int, partitioner: str = MURMUR2) -> int:
    """The partition (0 to `partitions` - 1) of a record with this key in a topic with this partitioner."""
    return PARTITIONERS[partitioner](key, partitions)


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


MARKER_HEADER = "streamstate.source"

Value = str | bytes | None
Headers = Mapping[str, Value] | Iterable[tuple[str, Value]]
"""Headers as returned by `confluent_kafka`."""


class Marker(NamedTuple):
    """Identifies a derived record: source topic id, partition, offset, and its index among the source's records.

    `number` is the index, from 0. A repeated record has the same marker. Kafka never reuses a `topic_id`, even when a
    topic is recreated.
    """

    topic_id: str
    partition: int
    offset: int
    number: int

    def encode(self) -> bytes:
        return ":".join(map(str, self)).encode()

    @classmethod
    def decode(cls, header: bytes) -> Self | None:
        """The marker in the header `streamstate.source`, None for an invalid header."""
        try:
            topic_id, *place = header.split(b":")
            partition, offset, number = map(int, place)
            return cls(topic_id.decode(), partition, offset, number) if b"".join(place).isdigit() else None
        except ValueError:
            return None

    @classmethod
    def from_headers(cls, headers: Headers | None) -> Self | None:
        """The marker among the headers of a record, None when there is none."""
        value = dict(headers or ()).get(MARKER_HEADER)
        return cls.decode(value) if isinstance(value, bytes) else None
