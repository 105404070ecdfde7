"""The topics of a service in functions: sources of typed values, and outputs."""

import copyreg
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec.inspect import IntType, LiteralType, NoneType, StrType, type_info

from streamstate.app import Derived, Emit, Form, Record, Source
from streamstate.errors import BadRecord
from streamstate.formats.event_times import EventTimes
from streamstate.formats.typed import struct_decoder
from streamstate.keys import MURMUR2, TEXT, KeyCodec

_WHOLE = re.compile(r"(?!-0*$)-?[0-9]{1,16}")


def source(
    topic: str,
    value: Any,
    key: KeyCodec[Any] = TEXT,
    *,
    deletes: bool = False,
    requires_beginning: bool = True,
    partitioner: str = MURMUR2,
    key_is: str = "",
    times: Mapping[str, str] | None = None,
) -> Source[Any, Any]:
    """A topic of values of the type `value`; records with other values are dead letters.

    value: a `msgspec.Struct`, in JSON; `int`, in digits; `str` or a `Literal` of texts; also `Annotated` with a `Meta`.
        Or a key type, such as `TEXT`. None: any value, which decodes to None. Raises `TypeError` for another type.
    deletes: whether a null value is accepted, as None; Kafka may then compact the topic. key, requires_beginning,
        partitioner: as of a `Source`.
    key_is: a member of the `msgspec.Struct` that is the key too; a record with another key is a dead letter.
    times: units (`s`, `ms`, `us`, `ns`) of members with a time of the producer, which a deployment may bound by Kafka's
        timestamp.
    """
    if not _decodes(value):
        kinds = "a msgspec.Struct, int, str, a Literal of texts, a key type such as TEXT, or None"
        msg = f"the values of {topic} have the type {value}; declare {kinds}"
        raise TypeError(msg)
    form: Form = "json" if _is_struct(value) else "text"
    names = {field.name: field.encode_name for field in msgspec.structs.fields(value)} if _is_struct(value) else {}
    return Source(
        topic,
        key,
        Decoder(value, deletes=deletes, key_is=key_is),
        requires_beginning=requires_beginning,
        form=form,
        last_values=deletes,
        partitioner=partitioner,
        times=EventTimes({name: (names[name], unit) for name, unit in times.items()}) if times else None,
    )


class Decoder:
    """`Source.decode` of values of a type, as of `source`. Workers of Spark get the type, and make their own."""

    def __init__(self, value: Any, *, deletes: bool, key_is: str = "") -> None:
        self._value = value
        self._deletes = deletes
        self._key_is = key_is
        self._nullable = deletes or value is None
        self._decode: Callable[[bytes], Any] = (
            struct_decoder(value) if _is_struct(value) else value.decode if hasattr(value, "parse") else self._text
        )
        self._numeric = self._decode == self._text and isinstance(type_info(value), IntType)

    def __reduce__(self) -> Any:
        return partial(Decoder, deletes=self._deletes, key_is=self._key_is), (self._value,)

    def __call__(self, key: Any, raw: bytes | None) -> Any:
        """The value. Raises `BadRecord`, `msgspec.ValidationError` or `UnicodeDecodeError`."""
        if raw is None:
            if self._nullable:
                return None
            msg = "the value is null"
            raise BadRecord(msg)
        value = self._decode(raw)
        if self._key_is and getattr(value, self._key_is) != key:
            names = {field.name: field.encode_name for field in msgspec.structs.fields(self._value)}
            msg = f"the key is not the {names[self._key_is]} of the value"
            raise BadRecord(msg)
        return value

    def _text(self, raw: bytes) -> Any:
        if self._value is None:
            return None
        text = raw.decode()
        return msgspec.convert(int(text) if self._numeric and _WHOLE.fullmatch(text) else text, self._value)


def _is_struct(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, msgspec.Struct)


def _decodes(value: Any) -> bool:
    if _is_struct(value) or hasattr(value, "parse"):
        return True
    match type_info(value):
        case LiteralType(values):
            return all(isinstance(each, str) for each in values)
        case kind:
            return isinstance(kind, IntType | StrType | NoneType)


def _reduced(meta: msgspec.Meta) -> Any:
    bounds = {name: bound for name in _BOUNDS if (bound := getattr(meta, name)) is not None}
    return partial(msgspec.Meta, **bounds), ()


_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
# msgspec's own class cannot be pickled, and the types of values go to workers of Spark.
copyreg.pickle(msgspec.Meta, _reduced)


@dataclass(frozen=True)
class Output:
    """A derived topic. value: the type of the values: a `msgspec.Struct`, in JSON, `str` or `int`, as text."""

    topic: str
    value: type
    key: KeyCodec[Any] = TEXT

    def emit(self, cause: Record[Any, Any], value: Any) -> Emit:
        """A record with the key of its cause; without a key, of a deleted user, a record that the fold drops.

        Raises `TypeError` for a value of another type.
        """
        if not isinstance(value, self.value):
            msg = f"a value of {self.topic} is of type {self.value.__name__}, not {type(value).__name__}"
            raise TypeError(msg)
        key = b"" if cause.key is None else self.key.encode(cause.key)
        raw = msgspec.json.encode(value) if isinstance(value, msgspec.Struct) else str(value).encode()
        return Emit(self.topic, key, raw, cause)


def outputs(*topics: Output) -> Mapping[str, Derived]:
    """The derived topics, for `App.emits`."""
    return {output.topic: Derived(output.key, output.value) for output in topics}
