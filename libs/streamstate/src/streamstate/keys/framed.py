"""Keys with a schema of the registry: a member of a record behind the id of its schema."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from streamstate.errors import BadRecord, RegistryUnavailable, UnknownSchema

if TYPE_CHECKING:
    from streamstate.keys import KeyCodec


def unreadable(_raw: bytes) -> Any:
    msg = "a key with a schema is read by streams only"
    raise BadRecord(msg)


@dataclass(frozen=True)
class Framed:
    """A key that is the only member of a record, as a serializer of the schema registry writes the record.

    format: json, avro, protobuf or jsonschema. schema: the id of the schema that producers use, as another id is
        another partition; 0: keys begin with their content, as JSON, or with ids in headers. member: the name; empty
        for a key that is no record. inner: the codec of the member. read: the content of a key of any schema.
    """

    format: str
    schema: int
    member: str
    inner: "KeyCodec[Any]"
    read: Callable[[bytes], Any] = field(default=unreadable, compare=False)

    @property
    def name(self) -> str:
        """The name, enough to encode a key: `avro:21:id:long`."""
        return f"{self.format}:{self.schema}:{self.member}:{self.inner.name}"

    def encode(self, key: Any) -> bytes:
        content = _WRITERS[self.format](self.member, key)
        if not self.schema:
            return content
        # The first message of a Protobuf schema.
        return b"\0" + self.schema.to_bytes(4, "big") + (b"\0" if self.format == "protobuf" else b"") + content

    def decode(self, raw: bytes | None) -> Any:
        try:
            content = self.read(raw or b"")
            value = content[self.member] if self.member else content
            if not isinstance(value, bool):
                return self.inner.decode(self.inner.encode(value))
        except (BadRecord, MemoryError, RegistryUnavailable, UnknownSchema):
            raise
        except Exception as error:
            raise self._unfit from error
        raise self._unfit

    @property
    def _unfit(self) -> BadRecord:
        return BadRecord(f"the key has no {self.member or 'value'} of type {self.inner.name}")

    def parse(self, text: str) -> Any:
        return self.inner.parse(text)


def _varint(number: int) -> bytes:
    raw = bytearray()
    while number > 0x7F:
        raw.append(number & 0x7F | 0x80)
        number >>= 7
    raw.append(number)
    return bytes(raw)


def _avro(_member: str, key: int | str) -> bytes:
    """A record of one member has the bytes of the member: a number, or a length and a text, in zigzag."""
    if isinstance(key, int):
        return _varint(2 * key)
    raw = key.encode()
    return _varint(2 * len(raw)) + raw


def _protobuf(_member: str, key: int | str) -> bytes:
    """The member has the number 1, and its default is left out."""
    if isinstance(key, int):
        return b"\x08" + _varint(key) if key else b""
    raw = key.encode()
    return b"\x0a" + _varint(len(raw)) + raw


def _json(member: str, key: int | str) -> bytes:
    """Without spaces, as Jackson writes."""
    return json.dumps({member: key} if member else key, ensure_ascii=False, separators=(",", ":")).encode()


_WRITERS: Mapping[str, Callable[[str, Any], bytes]] = {
    "avro": _avro,
    "protobuf": _protobuf,
    "jsonschema": _json,
    "json": _json,
}


class Codecs(dict[str, Any]):
    """Codecs by name. A name of a `Framed` is looked up by its parts, and not listed."""

    def __missing__(self, name: str) -> Framed:
        kind, _, rest = name.partition(":")
        if kind not in _WRITERS:
            raise KeyError(name)
        number, _, rest = rest.partition(":")
        member, _, inner = rest.rpartition(":")
        return _framed(kind, int(number), member, self[inner])


_framed = lru_cache(Framed)
