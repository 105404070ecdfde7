"""The topics of a service in functions: sources of typed values, and outputs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.inspect import IntType, type_info

from streamstate.app import Derived, Emit, Record, Source
from streamstate.errors import BadRecord
from streamstate.formats.typed import json_decoder
from streamstate.keys import TEXT, KeyCodec

_WHOLE = re.compile(r"-?[0-9]{1,16}", re.ASCII)

Decode = Callable[[bytes | None], Any]


def source(
    topic: str, value: Any, key: KeyCodec[Any] = TEXT, *, deletes: bool = False, requires_beginning: bool = True
) -> Source[Any, Any]:
    """A topic of values of the type `value`; records with other values are dead letters.

    value: a `msgspec.Struct`, in JSON; `int`, in digits; `str` or a `Literal` of texts; also `Annotated` with a `Meta`.
        Or a key type, such as `TEXT`. None: any value, which decodes to None.
    deletes: whether a null value is accepted, as None. key, requires_beginning: as of a `Source`.
    """
    struct = isinstance(value, type) and issubclass(value, msgspec.Struct)
    decode: Decode = json_decoder(value) if struct else value.decode if hasattr(value, "parse") else _texts(value)

    def decode_value(_key: Any, raw: bytes | None) -> Any:
        return None if value is None or (raw is None and deletes) else decode(raw)

    return Source(topic, key, decode_value, requires_beginning=requires_beginning, form="json" if struct else "text")


def _texts(value: Any) -> Decode:
    numeric = isinstance(type_info(value), IntType)

    def decode(raw: bytes | None) -> Any:
        if raw is None:
            msg = "the value is null"
            raise BadRecord(msg)
        text = raw.decode()
        return msgspec.convert(int(text) if numeric and _WHOLE.fullmatch(text) else text, value)

    return decode


@dataclass(frozen=True)
class Output:
    """A derived topic. value: the type of the values: a `msgspec.Struct`, in JSON, `str` or `int`, as text."""

    topic: str
    value: type
    key: KeyCodec[Any] = TEXT

    def emit(self, cause: Record[Any, Any], value: Any) -> Emit:
        """A record with the key of its cause."""
        raw = msgspec.json.encode(value) if isinstance(value, msgspec.Struct) else str(value).encode()
        return Emit(self.topic, self.key.encode(cause.key), raw, cause)


def outputs(*topics: Output) -> Mapping[str, Derived]:
    """The derived topics, for `App.emits`."""
    return {output.topic: Derived(output.key, output.value) for output in topics}
