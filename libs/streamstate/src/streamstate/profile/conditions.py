"""Conditions on an event's fields: comparisons, joined by all and any."""

import operator
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from streamstate.profile.fields import FieldType

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "in": lambda value, values: value in values,
}

Get = Callable[[Any], Any]
Test = Callable[[Any], bool]


class Condition(msgspec.Struct, frozen=True):
    """Conditions that all hold: comparisons (field, operator, literal), and lists of which any holds."""

    comparisons: tuple[tuple[str, str, Any], ...] = ()
    all: tuple["Condition", ...] = ()
    any: tuple[tuple["Condition", ...], ...] = ()

    @property
    def fields(self) -> set[str]:
        inner = [*self.all, *(each for alternatives in self.any for each in alternatives)]
        return {field for field, _, _ in self.comparisons}.union(*(each.fields for each in inner))

    def compiled(self, get: Callable[[str], Get]) -> Test | None:
        """The test of an event, given the getter of a field; None where all events count.

        A comparison with an absent value is false, `ne` included.
        """
        tests = [_comparison(get(field), _OPERATORS[name], literal) for field, name, literal in self.comparisons]
        tests += [test for each in self.all if (test := each.compiled(get))]
        alternatives = (_any([each.compiled(get) for each in listed]) for listed in self.any)
        tests += [test for test in alternatives if test]
        if not tests:
            return None
        return tests[0] if len(tests) == 1 else lambda event: all(test(event) for test in tests)


def _comparison(get: Get, compare: Callable[[Any, Any], bool], literal: Any) -> Test:
    def holds(event: Any) -> bool:
        value = get(event)
        return value is not None and compare(value, literal)

    return holds


def _any(tests: list[Test | None]) -> Test | None:
    return None if None in tests else lambda event: any(test(event) for test in tests if test)


def condition(words: Mapping[Any, Any], types: Mapping[str, FieldType]) -> Condition:
    """The condition written as `{field: {ge: 3}, any: [{…}, {…}]}`.

    Raises KeyError with an unknown field, ValueError for another fault.
    """
    comparisons = []
    joined: dict[str, list[Any]] = {"all": [], "any": []}
    for name, inner in words.items():
        if name in joined:
            if not (isinstance(inner, list) and inner and all(isinstance(each, dict) and each for each in inner)):
                msg = f"{name} has a list of conditions, such as {name}: [{{device: {{eq: phone}}}}]"
                raise ValueError(msg)
            joined[name].append(tuple(condition(each, types) for each in inner))
            continue
        if not isinstance(name, str):
            msg = f"{name} is no text; put it into quotes"
            raise ValueError(msg)
        of = types[name]
        if not isinstance(inner, dict) or not inner:
            msg = f"compare {name} by {', '.join(_OPERATORS)}, such as {name}: {{ge: 3}}"
            raise ValueError(msg)
        comparisons += [(name, word, _literal(of, word, literal)) for word, literal in inner.items()]
    inner_all = tuple(each for conditions in joined["all"] for each in conditions)
    # Another order of the same words is the same condition.
    return Condition(tuple(sorted(comparisons, key=itemgetter(0, 1))), inner_all, tuple(joined["any"]))


def _literal(of: FieldType, word: str, literal: Any) -> Any:
    if word not in _OPERATORS:
        msg = f"there is no comparison {word}; there are {', '.join(_OPERATORS)}"
        raise ValueError(msg)
    if word != "in":
        return of.stored(literal)
    if not isinstance(literal, list) or not literal:
        msg = f"in has a list of values, such as {of.name}: {{in: [a, b]}}"
        raise ValueError(msg)
    return tuple(of.stored(each) for each in literal)
