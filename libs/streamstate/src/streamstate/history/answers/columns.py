"""Answers as columns of Arrow: a column for each member of the type of a view's answer.

Structs, lists and maps stay structs, lists and maps. A member of several types, or of any type, is a text in JSON.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import inspect

Convert = Callable[[Any], Any]


class Column(NamedTuple):
    """A type of Arrow, and the conversion of a value, as read from JSON, to Arrow's input."""

    type: "pa.DataType"
    convert: Convert | None = None


_TEXT = Column(pa.string())
_FLOAT = Column(pa.float64())
_PLAIN: Mapping[type[inspect.Type], Column] = {
    inspect.BoolType: Column(pa.bool_()),
    inspect.IntType: Column(pa.int64()),
    inspect.FloatType: _FLOAT,
    inspect.StrType: _TEXT,
    inspect.BytesType: _TEXT,
    inspect.DateType: _TEXT,
    inspect.DateTimeType: _TEXT,
    inspect.UUIDType: _TEXT,
}
"""By type; dates and bytes are texts as in the answer."""


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


_JSON = Column(pa.string(), _json)


KEY: "pa.Field[Any]" = pa.field("key", pa.string(), nullable=False)
"""The column of a view's key, as in a URL. An answer's own member `key` says the same."""


class Columns:
    """The columns of the answers of type `kind`, apart from a member `key`, as of `KEY`.

    schema: the columns, with the names of the members in the answer.
    """

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        members = _members(inspect.type_info(kind))
        self._members = {name: column for name, column in members.items() if name != KEY.name}
        fields = [pa.field(name, column.type) for name, column in self._members.items()]
        self.schema = pa.schema(fields)

    def arrays(self, answers: Sequence[msgspec.Struct | None]) -> list["pa.Array[Any]"]:
        """The values of `answers` by column; null without an answer."""
        rows = [{} if answer is None else msgspec.json.decode(msgspec.json.encode(answer)) for answer in answers]
        return [
            pa.array([_converted(column.convert, row.get(name)) for row in rows], column.type)
            for name, column in self._members.items()
        ]


def _converted(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _members(kind: inspect.Type) -> dict[str, Column]:
    assert isinstance(kind, inspect.StructType)
    return {field.encode_name: _column(field.type) for field in kind.fields}


def _column(kind: inspect.Type) -> Column:
    match kind:
        case inspect.UnionType(types):
            some = [each for each in types if not isinstance(each, inspect.NoneType)]
            if len(some) == 1:
                return _column(some[0])
            return _FLOAT if all(isinstance(each, inspect.IntType | inspect.FloatType) for each in some) else _JSON
        case inspect.StructType(fields=fields) if fields:
            return _struct(_members(kind))
        case inspect.ListType(item) | inspect.VarTupleType(item) | inspect.SetType(item) | inspect.FrozenSetType(item):
            own = _column(item)
            return Column(
                pa.list_(own.type), own.convert and (lambda items: [_converted(own.convert, i) for i in items])
            )
        case inspect.DictType(_, value):
            of = _column(value)
            return Column(
                pa.map_(pa.string(), of.type), lambda held: [(k, _converted(of.convert, v)) for k, v in held.items()]
            )
        case inspect.Metadata(type=inner):
            return _column(inner)
        case inspect.LiteralType(values) if all(isinstance(value, str) for value in values):
            return Column(pa.string())
        case inspect.LiteralType(values) if all(isinstance(value, int) for value in values):
            return Column(pa.int64())
        case _:
            return _PLAIN.get(type(kind), _JSON)


def _struct(members: Mapping[str, Column]) -> Column:
    converts = {name: column.convert for name, column in members.items() if column.convert}
    fields = [pa.field(name, column.type) for name, column in members.items()]
    if not converts:
        return Column(pa.struct(fields))
    return Column(
        pa.struct(fields), lambda value: value | {n: _converted(of, value.get(n)) for n, of in converts.items()}
    )
