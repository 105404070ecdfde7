"""The fields of events: their types, their values in the state, and the decoding of a record's value."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from streamstate.errors import BadRecord
from streamstate.keys import TEXT_MAX_BYTES, sortable, unsortable

TIMESTAMP = "timestamp"
"""Names Kafka's timestamp of a record, in milliseconds."""

_RESERVED = (TIMESTAMP, "all", "any")
_DECIMAL = re.compile(r"decimal\(([1-9])\)")
_INT = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_TEXT = Annotated[str, Meta(max_length=TEXT_MAX_BYTES)]

Value = int | str | bool


class FieldType(NamedTuple):
    """A field's type. Decimals are whole numbers in the state: value · 10^`scale`."""

    kind: Literal["int", "str", "bool", "decimal"]
    scale: int
    name: str

    @property
    def decoded(self) -> Any:
        """The type that a record's value is decoded to."""
        return {"int": _INT, "str": _TEXT, "bool": bool, "decimal": Decimal}[self.kind]

    @property
    def answered(self) -> Any:
        """The type in an answer."""
        return {"int": int, "str": str, "bool": bool, "decimal": float}[self.kind]

    def stored(self, value: Any) -> Value:
        """A literal of a declaration, or a decimal of a record, as in the state. Raises ValueError for another type."""
        if self.kind == "decimal" and isinstance(value, int | float | str | Decimal) and not isinstance(value, bool):
            scaled = Decimal(str(value)).scaleb(self.scale)
            if scaled != int(scaled):
                msg = f"{self.name} has more than {self.scale} decimals"
                raise ValueError(msg)
            return int(scaled)
        python = {"int": int, "str": str, "bool": bool}.get(self.kind)
        if type(value) is not python:
            msg = f"{value!r} is no {self.kind}"
            raise ValueError(msg)
        return value  # type: ignore[return-value]

    def answer(self, number: float) -> float:
        """A stored number in an answer."""
        return number / 10**self.scale if self.scale else number

    def member(self, value: Value) -> str:
        """A value as a member of a ranking: the order of texts is the order of values."""
        if self.kind == "str":
            return str(value)
        if value >= 0:  # type: ignore[operator]
            return sortable(int(value))
        digits = str(-int(value))
        return f"-{chr(122 - len(digits))}{10 ** len(digits) - 1 + int(value):0{len(digits)}d}"

    def stored_member(self, member: str) -> Value:
        """The value of a `member`."""
        if self.kind == "str":
            return member
        number = unsortable(member) if member[0] != "-" else int(member[2:]) + 1 - 10 ** (122 - ord(member[1]))
        return bool(number) if self.kind == "bool" else number

    def text(self, value: Value) -> str:
        """A value as the name of a member of an answer: JSON without quotes."""
        return value if isinstance(value, str) else msgspec.json.encode(self.answered_value(value)).decode()

    def answered_value(self, value: Value) -> Value | float:
        """A stored value in an answer."""
        return self.answer(value) if self.kind == "decimal" else value  # type: ignore[arg-type]


def field_type(name: str, text: str) -> FieldType:
    """The type written as `int`, `str`, `bool` or `decimal(2)`. Raises ValueError."""
    if name in _RESERVED:
        msg = f"a field is not called {name}: timestamp is Kafka's, and all and any join conditions"
        raise ValueError(msg)
    if text in ("int", "str", "bool"):
        return FieldType(text, 0, name)  # type: ignore[arg-type]
    if found := _DECIMAL.fullmatch(text):
        return FieldType("decimal", int(found[1]), name)
    msg = f"{text!r} is no type: write int, str, bool, or decimal(2) for numbers with up to 2 decimals"
    raise ValueError(msg)


class EventDecoder:
    """The `decode` of a profile's source: JSON → an event with the attributes `f0`, `f1` … in the order of `types`.

    An absent or null member is None; further members are ignored.
    """

    def __init__(self, types: Mapping[str, FieldType]) -> None:
        self._types = dict(types)
        named = [(f"f{index}", of.decoded | None, None) for index, of in enumerate(types.values())]
        rename = {f"f{index}": name for index, name in enumerate(types)}
        kind = msgspec.defstruct("Event", named, rename=rename, gc=False)
        self._decode = msgspec.json.Decoder(kind).decode
        self._decimals = [(f"f{index}", of) for index, of in enumerate(types.values()) if of.kind == "decimal"]

    def __reduce__(self) -> Any:
        return EventDecoder, (self._types,)

    def __call__(self, _key: Any, value: bytes | None) -> Any:
        """Raises `BadRecord`, or `msgspec.ValidationError` for a member of another type."""
        if value is None:
            msg = "the value is null"
            raise BadRecord(msg)
        event = self._decode(value)
        for attribute, of in self._decimals:
            if (number := getattr(event, attribute)) is not None:
                try:
                    setattr(event, attribute, of.stored(number))
                except ValueError as error:
                    raise BadRecord(str(error)) from error
        return event
