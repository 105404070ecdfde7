"""The fields of events: their types, their values in the state, and the decoding of a record's value."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Meta

from streamstate.errors import BadRecord
from streamstate.formats.typed import EXACT, Float, exact_number, json_number, struct_decoder, whole_number
from streamstate.keys import TEXT_MAX_BYTES, sortable

TIMESTAMP = "timestamp"
"""Names Kafka's timestamp of a record, in milliseconds."""

RESERVED = (TIMESTAMP, "all", "any")
"""Names that no field has."""

_ROUND = "round"
_DECIMAL = re.compile(rf"decimal\(([1-9])(?:, ({_ROUND}))?\)")
_WRITTEN = re.compile(r"int\((text)\)|time\((s|ms|us|ns)\)")
_MILLISECONDS: Mapping[str, Decimal] = {
    "s": Decimal(1_000),
    "ms": Decimal(1),
    "us": Decimal("0.001"),
    "ns": Decimal("0.000001"),
}
_ROUNDED = Context(prec=28, traps=[InvalidOperation])
_UNREADABLE = re.compile(r'["\\\x00-\x1f]')
_INT = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_TEXT = Annotated[str, Meta(max_length=TEXT_MAX_BYTES)]

Value = int | str | bool


class FieldWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field whose member in the value has another name, or is within other members: `user.device`."""

    type: str
    member: str


class FieldType(NamedTuple):
    """A field's type, and the path of its member. Decimals are whole numbers in the state: value · 10^`scale`.

    written: how an `int` is written otherwise: also as `text`, or as a time in a unit; in the state in milliseconds. Of
        a decimal, `round`: numbers with more decimals are rounded, half to even.
    """

    kind: Literal["int", "str", "bool", "decimal"]
    scale: int
    name: str
    path: str
    written: str = ""

    @property
    def converted(self) -> bool:
        """Whether a record's value is decoded to what it is in JSON, for `read`."""
        return self.kind == "decimal" or bool(self.written)

    @property
    def unit(self) -> str:
        """The unit of a time: `s`, `ms`, `us` or `ns`; empty for another value."""
        return self.written if self.written in _MILLISECONDS else ""

    @property
    def decoded(self) -> Any:
        """The type that a record's value is decoded to."""
        return Any if self.converted else {"int": _INT, "str": _TEXT, "bool": bool}[self.kind]

    @property
    def answered(self) -> Any:
        """The type in an answer."""
        return {"int": int, "str": str, "bool": bool, "decimal": float}[self.kind]

    def stored(self, value: Any) -> Value:
        """A literal of a declaration as in the state. Raises ValueError for another type."""
        if self.kind == "decimal":
            try:
                return self._scaled(exact_number(Float(value) if isinstance(value, float | Decimal) else value))
            except (ArithmeticError, ValueError) as error:
                msg = f"{self.name} has more than {self.scale} decimals, or is no number of 64 bits"
                raise ValueError(msg) from error
        python = {"int": int, "str": str, "bool": bool}.get(self.kind)
        if type(value) is not python:
            msg = f"{value!r} is no {self.kind}"
            raise ValueError(msg)
        return value  # type: ignore[return-value]

    def read(self, value: Any) -> Value:
        """The member of a record, a float as `Float`, as in the state. Raises `BadRecord`."""
        try:
            if self.written == _ROUND:
                digits = Decimal(1).scaleb(-self.scale)
                return self._scaled(Decimal(json_number(value)).quantize(digits, context=_ROUNDED))
            if self.kind == "decimal":
                return self._scaled(exact_number(value))
            number = math.floor(exact_number(value) * _MILLISECONDS[self.unit]) if self.unit else whole_number(value)
            if -(2**63) <= number < 2**63:
                return number
        except (ArithmeticError, ValueError):
            pass
        noun = "time" if self.unit else "whole number" if self.kind == "int" else "number"
        decimals = f" with up to {self.scale} decimals" if self.scale and not self.written else ""
        msg = f"Expected a {noun} of 64 bits{decimals}, or its digits as text - at `$.{self.path}`"
        raise BadRecord(msg)

    def _scaled(self, number: Decimal) -> int:
        """The number as in the state. Raises ValueError, or ArithmeticError."""
        scaled = EXACT.scaleb(number, self.scale)
        if -(2**63) <= scaled < 2**63 and scaled == (whole := int(scaled)):
            return whole
        raise ValueError(number)

    @property
    def member(self) -> Callable[[Any], str]:
        """A value → the member of a ranking: the order of texts is the order of values."""
        named: dict[str, Callable[[Any], str]] = {"str": str, "bool": lambda value: sortable(int(value))}
        return named.get(self.kind, _numeric_member)

    def stored_ranking(self, ranking: Sequence[tuple[str, int]]) -> Sequence[tuple[Value, int]]:
        """A ranking of members as a ranking of values."""
        if self.kind == "str":
            return ranking
        if self.kind == "bool":
            return [(member == "a1", number) for member, number in ranking]
        # A profile has thirty members: without a call for each.
        return [(int(member[1:]) if member[0] != "-" else _negative(member), number) for member, number in ranking]

    def text(self, value: Value) -> str:
        """A value as the name of a member of an answer: JSON without quotes."""
        return value if isinstance(value, str) else msgspec.json.encode(self.answered_value(value)).decode()

    def answered_value(self, value: Value) -> Value | float:
        """A stored value in an answer."""
        return value / 10**self.scale if self.scale else value


def _numeric_member(value: int) -> str:
    if value >= 0:
        return sortable(value)
    digits = str(-value)
    return f"-{chr(122 - len(digits))}{10 ** len(digits) - 1 + value:0{len(digits)}d}"


def _negative(member: str) -> int:
    return int(member[2:]) + 1 - int(10 ** (122 - ord(member[1])))


def field_type(name: str, words: str | FieldWords) -> FieldType:
    """The type written as `int`, `str`, `bool`, `decimal(2)`, `int(text)` or `time(us)`. Raises ValueError."""
    text, member = (words, name) if isinstance(words, str) else (words.type, words.member)
    if name in RESERVED:
        msg = f"a field is not called {name}: timestamp is Kafka's, and all and any join conditions"
        raise ValueError(msg)
    if unreadable := _UNREADABLE.search(name + member):
        msg = f"the member {member!r} has {unreadable[0]!r}, which no member of a field has"
        raise ValueError(msg)
    if text in ("int", "str", "bool"):
        return FieldType(text, 0, name, member)  # type: ignore[arg-type]
    if found := _DECIMAL.fullmatch(text):
        return FieldType("decimal", int(found[1]), name, member, found[2] or "")
    if found := _WRITTEN.fullmatch(text):
        return FieldType("int", 0, name, member, found[1] or found[2])
    msg = (
        f"{text!r} is no type: write int, str, bool, decimal(2) for numbers with up to 2 decimals, decimal(2, round) "
        "to round others, time(s), time(ms), time(us) or time(ns) for times since 1970, or int(text) for whole numbers "
        "that may be texts"
    )
    raise ValueError(msg)


Tree = dict[str, "Tree | FieldType"]
"""Fields by the members around them."""


class Selection(Protocol):
    """A condition on the fields of an event."""

    @property
    def fields(self) -> set[str]: ...
    def compiled(self, get: Callable[[str], Callable[[Any], Any]]) -> Callable[[Any], bool] | None: ...


class EventDecoder:
    """The `decode` of a profile's source: JSON → an event with the `event_attributes` of `types`.

    An absent or null member is None, as are the members within; further members are ignored. A value that does not
    fulfil `where` is None: only the fields of `where` must have their types. A null value is UNSET.
    """

    def __init__(self, types: Sequence[FieldType], where: Selection | None = None) -> None:
        """Raises ValueError for two fields of one member."""
        self._types = types
        self._where = where
        self._selects: Callable[[Any], bool] | None = None
        if where is not None:
            named = [of for of in types if of.name in where.fields]
            self._named = EventDecoder(named)
            attribute = event_attributes(of.name for of in named)
            self._selects = where.compiled(lambda field: attrgetter(attribute[field]))
        tree = member_tree(types)
        self._decode: Callable[[bytes], Any] = struct_decoder(_structure(tree), float_hook=Float)
        self._flat: Callable[..., Any] | None = None
        if any(isinstance(inner, dict) for inner in tree.values()):
            self._flat = _structure({of.name: of for of in types})
            self._values = [_getter(tree, of) for of in types]
        attributes = event_attributes(of.name for of in types)
        self._converted = [(attributes[of.name], of) for of in types if of.converted]

    def __reduce__(self) -> Any:
        return EventDecoder, (self._types, self._where)

    def __call__(self, _key: Any, value: bytes | None) -> Any:
        """Raises `BadRecord` or `msgspec.DecodeError` for a value that is no event."""
        if value is None:
            return UNSET
        if self._selects is not None and not self._selects(self._named(None, value)):
            return None
        event = self._decode(value)
        if self._flat is not None:
            event = self._flat(*(get(event) for get in self._values))
        for attribute, of in self._converted:
            if (written := getattr(event, attribute)) is not None:
                setattr(event, attribute, of.read(written))
        return event


def event_attributes(fields: Iterable[str]) -> dict[str, str]:
    """The attributes of an event by field: `f0`, `f1` … in the order of `fields`."""
    return {field: f"f{index}" for index, field in enumerate(fields)}


def member_tree(types: Iterable[FieldType]) -> Tree:
    """The fields by the members around them. Raises ValueError for two fields of one member."""
    tree: Tree = {}
    for of in types:
        *around, last = of.path.split(".")
        node = tree
        for member in around:
            inner = node.setdefault(member, {})
            if not isinstance(inner, dict):
                msg = f"{of.name}: the member {member} is a field itself"
                raise ValueError(msg)
            node = inner
        if last in node:
            msg = f"{of.name}: two fields read the member {of.path}"
            raise ValueError(msg)
        node[last] = of
    return tree


def _structure(tree: Tree) -> Any:
    kinds = [_structure(inner) if isinstance(inner, dict) else inner.decoded for inner in tree.values()]
    names = event_attributes(tree)
    members = [(attribute, kind | None, None) for attribute, kind in zip(names.values(), kinds, strict=True)]
    return msgspec.defstruct("Event", members, rename={attribute: name for name, attribute in names.items()})


def _getter(tree: Tree, of: FieldType) -> Callable[[Any], Any]:
    """The getter of a field of an event with nested members."""
    attributes: list[str] = []
    node: Tree | FieldType = tree
    for member in of.path.split("."):
        assert isinstance(node, dict)
        attributes.append(event_attributes(node)[member])
        node = node[member]

    def get(event: Any) -> Any:
        for attribute in attributes:
            if event is None:
                return None
            event = getattr(event, attribute)
        return event

    return get
