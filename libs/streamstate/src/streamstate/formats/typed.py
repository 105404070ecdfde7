"""JSON values as a service's own types."""

import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, TypeVar

import msgspec

from streamstate.errors import BadRecord

V = TypeVar("V")

_SURROGATE = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ALONE = re.compile(rb"(%b%b|\\[^u]|\\u(?![dD][89a-fA-F]))|%b|%b" % (*_SURROGATE, *_SURROGATE))
"""Matches each escape; the group is empty for a surrogate that is in no pair."""
_NO_UTF8 = b"\xff"
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")

EXACT = Context(prec=28, Emin=-99, Emax=99, traps=[InvalidOperation, Inexact])
"""Exact arithmetic of numbers of up to 28 digits."""


def json_decoder(kind: type[V]) -> Callable[[bytes | None], V]:
    """A strict decoder of JSON values: exactly the types of `kind`, further members ignored, null refused."""
    decode = struct_decoder(kind)

    def strict(value: bytes | None) -> V:
        if value is None:
            msg = "the value is null"
            raise BadRecord(msg)
        return decode(value)

    return strict


def struct_decoder(kind: type[V], **options: Any) -> Callable[[bytes], V]:
    """A decoder of JSON into a struct. Texts of other members may have surrogates without a pair, or be no UTF-8.

    options: of `msgspec.json.Decoder`. It raises `BadRecord` with the name of a member for such a text.
    """
    decode: Callable[[bytes], V] = msgspec.json.Decoder(kind, **options).decode

    def read(value: bytes) -> V:
        try:
            return decode(value)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError):
            safe = without_surrogates(value)
        try:
            return decode(safe)
        except UnicodeDecodeError as error:
            msg = f"{_unreadable(kind, safe)} has a text that is no UTF-8, or a surrogate without its pair: {error}"
            raise BadRecord(msg) from error

    return read


def without_surrogates(value: bytes) -> bytes:
    """The JSON `value` with a byte that is no UTF-8 for each surrogate without a pair.

    msgspec refuses such surrogates everywhere, and bytes that are no UTF-8 where they are read.
    """
    return _ALONE.sub(lambda escape: escape[1] or _NO_UTF8, value)


def _unreadable(kind: Any, value: bytes) -> str:
    """The outermost member with a text that is no UTF-8."""
    for field in msgspec.structs.fields(kind):
        alone = msgspec.defstruct("Alone", [("member", field.type, None)], rename={"member": field.encode_name})
        try:
            msgspec.json.decode(value, type=alone)
        except UnicodeDecodeError:
            return f"the member {field.encode_name}"
    return "the name of a member"


class Float(str):
    """The text of a JSON number with decimals or an exponent."""

    __slots__ = ()


def json_number(value: Any) -> int | str:
    """A JSON number, or a text that has no exponent, and no other digits, spaces or signs than JSON has.

    Raises ValueError for another value.
    """
    if type(value) not in (int, str, Float) or (type(value) is str and not _NUMBER.fullmatch(value)):
        raise ValueError(value)
    return value  # type: ignore[no-any-return]


def exact_number(value: Any) -> Decimal:
    """The number of up to 28 digits, so that arithmetic is exact. Raises ValueError, or ArithmeticError for more."""
    return EXACT.create_decimal(json_number(value))


def whole_number(value: Any) -> int:
    """The whole number. Raises ValueError, or ArithmeticError."""
    if type(value) is Float:
        number = exact_number(value)
        if (integer := int(number)) == number:
            return integer
        raise ValueError(value)
    if type(value) is str and "." in value:
        raise ValueError(value)
    return int(json_number(value))
