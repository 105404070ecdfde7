"""Events of a profile read by brute force, without the library: paths, numbers in texts, bounds, conditions."""

import json
import math
import operator
import re
from collections.abc import Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction
from typing import Any

UNUSABLE = (ValueError, TypeError, ArithmeticError, RecursionError)
"""Errors of a record that cannot be used."""

_MOST = 2**63 - 1
_LONGEST = 1_024
_PARTS = {"int(text)": 1_000, "time(s)": 1, "time(ms)": 10**3, "time(us)": 10**6, "time(ns)": 10**9}
"""The units of a second; a number is a time in milliseconds."""
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_DIGITS = Context(prec=28, Emin=-99, Emax=99, traps=[InvalidOperation, Inexact])

Event = Mapping[str, Any]
"""The fields of an event, with `timestamp` and `offset` of its record."""


def event_of(
    value: bytes | None, kinds: Mapping[str, str], paths: Mapping[str, str], where: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The fields of a value, None for null, or where `where` leaves it out. Raises an error of `UNUSABLE`."""
    if value is None:
        return None
    content = content_of(value)
    named = {name: _value(_member(content, paths[name]), kinds[name]) for name in _named(where)}
    if not holds(where, named):
        return None
    return {name: _value(_member(content, paths[name]), kind) for name, kind in kinds.items()}


class Float(str):
    """The text of a JSON number with decimals or an exponent."""

    __slots__ = ()


def content_of(value: bytes | None) -> dict[str, Any]:
    """A JSON object. Raises an error of `UNUSABLE`; the texts of members that are not read may have no UTF-8."""
    text = (value or b"").decode(errors="surrogateescape")
    # Python refuses integers of more digits; so long a number is beyond any type.
    content = json.loads(text, parse_constant=int, parse_float=Float, parse_int=lambda digits: int(digits[:99]))
    if not isinstance(content, dict):
        raise TypeError
    return content


def _member(content: Any, path: str) -> Any:
    """The member at `path`. Raises TypeError where a member around it is no object."""
    for name in path.split("."):
        if content is None:
            return None
        if not isinstance(content, dict):
            raise TypeError
        content = content.get(name)
    return content


def _value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("decimal"):
        scale, number = int(kind[8]), _number(value)
        rounded = round(number, scale)
        exact = kind.endswith("round)") or rounded == _DIGITS.create_decimal(number)
        if not exact or not -_MOST <= int(rounded.scaleb(scale)) + 1 <= 2**63:
            raise ValueError
        return rounded
    if kind in _PARTS:
        return time_of(value, kind)
    types: Mapping[str, type] = {"int": int, "str": str, "bool": bool}
    if type(value) is not types[kind]:
        raise TypeError
    if isinstance(value, str):
        # A lone surrogate has no UTF-8.
        value.encode()
    if (isinstance(value, str) and len(value) > _LONGEST) or (
        isinstance(value, int) and not -_MOST <= value + 1 <= 2**63
    ):
        raise ValueError
    return value


def _number(written: Any) -> Decimal:
    """The number in a JSON number or text. Raises an error of `UNUSABLE`."""
    if type(written) not in (int, str, Float) or (type(written) is str and not _NUMBER.fullmatch(written)):
        raise TypeError
    return Decimal(written)


def time_of(value: Any, kind: str) -> int:
    """A time in milliseconds, or a number of `int(text)`. Raises an error of `UNUSABLE`."""
    if kind == "int(text)" and type(value) is str and not _WHOLE.fullmatch(value):
        raise ValueError
    exact = Fraction(_DIGITS.create_decimal(_number(value))) * 1_000 / _PARTS[kind]
    if (kind == "int(text)" and exact.denominator > 1) or not -_MOST <= math.floor(exact) + 1 <= 2**63:
        raise ValueError
    return math.floor(exact)


def _named(where: Mapping[str, Any]) -> set[str]:
    """The fields of a condition."""
    conditions: list[Any] = [where]
    found: set[str] = set()
    while conditions:
        for name, inner in conditions.pop().items():
            if name in ("all", "any"):
                conditions += inner
            else:
                found.add(name)
    return found


def holds(where: Mapping[str, Any], event: Event) -> bool:
    joins = {"all": all, "any": any}
    return all(
        joins[name](holds(each, event) for each in inner)
        if name in joins
        else all(_compared(event[name], word, literal) for word, literal in inner.items())
        for name, inner in where.items()
    )


def _compared(value: Any, word: str, literal: Any) -> bool:
    if value is None:
        return False
    if isinstance(value, Decimal):
        literal = [Decimal(str(each)) for each in literal] if word == "in" else Decimal(str(literal))
    return value in literal if word == "in" else bool(getattr(operator, word)(value, literal))
