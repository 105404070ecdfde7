"""The conditions of a request for keys, such as `plays_7d.ge.100`. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import msgspec

from streamstate.errors import BadParameter
from streamstate.profile.fields import FieldType
from streamstate.profile.indexes.layout import Index
from streamstate.state.operations import MOST

_SHOWN = 40
_MOST_VALUES = 100
_NUMBER = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,9})?", re.ASCII)

Range = tuple[int, int]
"""The least and the greatest value, both inclusive."""


class Comparison(msgspec.Struct, frozen=True):
    """A comparison of the value in an index: the value is in one of `ranges`, which do not overlap."""

    index: Index
    ranges: Sequence[Range]

    def holds(self, value: int) -> bool:
        """Whether the comparison is true for a value."""
        return any(least <= value <= most for least, most in self.ranges)


def comparisons(where: Sequence[str], indexes: Sequence[Index], types: Mapping[str, FieldType]) -> list[Comparison]:
    """The comparisons of a request. Raises `BadParameter`."""
    named = {index.name: index for index in indexes}
    if not where:
        raise _refused(f"give a comparison, such as where={next(iter(named))}.ge.100")
    return [_comparison(text, named, types) for text in where]


def _comparison(text: str, named: Mapping[str, Index], types: Mapping[str, FieldType]) -> Comparison:
    name, word, literal = [*text.split(".", 2), "", ""][:3]
    if (index := named.get(name)) is None:
        nearest = get_close_matches(name[:_SHOWN], named, n=1, cutoff=0)
        raise _refused(f"there is no index {name[:_SHOWN]}; did you mean {nearest[0]}? There are {', '.join(named)}")
    if word not in _RANGES:
        raise _refused(f"compare {name} by {', '.join(_RANGES)}, such as {name}.ge.100")
    texts = literal.split(",") if word == "in" else [literal]
    if len(texts) > _MOST_VALUES:
        raise _refused(f"in has up to {_MOST_VALUES} values")
    ranges = [of for value in {_number(index, each, types) for each in texts} for of in _RANGES[word](value)]
    if index.window and (word not in ("gt", "ge") or ranges[0][0] < 1):
        raise _refused(f"{name} is over a window: compare by ge with a number above 0, or gt; others need ever")
    return Comparison(index, ranges)


def _number(index: Index, text: str, types: Mapping[str, FieldType]) -> int:
    """A value as in the state."""
    of = types[index.measure.field] if index.measure.kind == "total" else None
    try:
        if not _NUMBER.fullmatch(text):
            raise ValueError(text)
        value = of.stored(text) if of and of.kind == "decimal" else int(text)
        if abs(value) > MOST:  # type: ignore[arg-type]
            raise ValueError(text)
    except ValueError as error:
        wanted = f"a number with up to {of.scale} decimals" if of and of.scale else "a whole number"
        raise _refused(f"{index.name} is compared with {wanted}, up to 2^53; found {text[:_SHOWN]!r}") from error
    return int(value)


_RANGES: Mapping[str, Callable[[int], list[Range]]] = {
    "eq": lambda value: [(value, value)],
    "ne": lambda value: [(-MOST, value - 1), (value + 1, MOST)],
    "lt": lambda value: [(-MOST, value - 1)],
    "le": lambda value: [(-MOST, value)],
    "gt": lambda value: [(value + 1, MOST)],
    "ge": lambda value: [(value, MOST)],
    "in": lambda value: [(value, value)],
}
"""The ranges of a comparison with a value, by the words of conditions on events."""


def _refused(reason: str) -> BadParameter:
    return BadParameter(f"where: {reason}")
