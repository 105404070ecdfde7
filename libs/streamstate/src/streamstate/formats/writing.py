"""Derived records in the format of their topic, with a schema made from the service's type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from streamstate.app import Derived
from streamstate.errors import Misconfigured
from streamstate.formats import plain
from streamstate.formats.reading import VALUE
from streamstate.formats.registered import framing
from streamstate.formats.registered.declared import sample, schema
from streamstate.formats.registered.registry import Registry, Schema
from streamstate.keys import KeyCodec


@dataclass(frozen=True)
class FormatEncoder:
    """The `encode` of a topic that has another format than the service.

    key: the codecs of the service and of the topic. kind: the type of the values. names: the topic's member names, by
        the service's. number: the id of the schema in the registry, None before registration, or without a schema.
    latest: whether the schema is the latest version of the topic's subject. found: the schema of this version.
    """

    key: tuple[KeyCodec[Any], KeyCodec[Any]]
    kind: type
    value: str
    names: Mapping[str, str]
    registry: Registry
    number: int | None = None
    latest: bool = False
    found: Schema | None = None

    def __reduce__(self) -> Any:
        own = self.key, self.kind, self.value, self.names, self.registry, self.number, self.latest, self.found
        return FormatEncoder, own

    def __call__(self, key: bytes, value: bytes | None) -> tuple[bytes, bytes | None]:
        own, other = self.key
        return other.encode(own.decode(key)), None if value is None else self.write(value)

    def registered(self, topic: str) -> "FormatEncoder":
        """The same, with its schema registered for `topic`, or the latest version.

        Raises `Misconfigured` when the registry refuses the schema, or has no version that fits, and
        `RegistryUnavailable` when the registry does not answer.
        """
        if self.value not in framing.KINDS:
            return self
        subject = f"{topic}-value"
        if not self.latest:
            return replace(self, number=self.registry.register(subject, self._schema))
        number, found = self.registry.latest(subject)
        encoder = replace(self, number=number, found=found)
        encoder._require_fit(subject)
        return encoder

    def _require_fit(self, subject: str) -> None:
        """Raise `Misconfigured` unless a record of the service fits the found schema."""
        assert self.found is not None
        try:
            if self.found.kind != framing.KINDS[self.value]:
                raise TypeError(f"it is of the kind {self.found.kind}")
            self.write(msgspec.json.encode(sample(self.kind)) if self.kind is not str else b"")
        except Exception as error:
            msg = (
                f"the latest schema of {subject} ({self.number}) does not fit the service's records: {error}; register "
                f"a version such as: {schema(self.value, self.kind, self.names).text}"
            )
            raise Misconfigured(msg) from error

    @cached_property
    def _schema(self) -> Schema:
        return self.found or schema(self.value, self.kind, self.names)

    @cached_property
    def write(self) -> Callable[[bytes], bytes]:
        """Converts a value from the service's form to the topic's format; raises for an unfit value."""
        kind, names = self.kind, self.names
        if self.value not in framing.KINDS:
            write = plain.SERDES[self.value][1] if self.value else _own(kind)
            return lambda value: write(plain.renamed(plain.as_object(kind, value), names))
        content: Callable[[Any], bytes] = framing.module(self.value).writer(self._schema)
        wraps = self.value == "protobuf" and kind in (str, int)

        def write_framed(value: bytes) -> bytes:
            assert self.number is not None, "the schema was not registered"
            found = plain.renamed(plain.as_object(kind, value), names)
            return framing.framed(self.number, content({VALUE: found} if wraps else found))

        return write_framed


def _own(kind: type) -> Callable[[Any], bytes]:
    return plain.SERDES["string" if kind is str else "json"][1]


def registering(derived: Derived, topic: str) -> Derived:
    """`derived` with its schema registered for `topic`. Raises as `FormatEncoder.registered` does."""
    encode = derived.encode
    return replace(derived, encode=encode.registered(topic)) if isinstance(encode, FormatEncoder) else derived
