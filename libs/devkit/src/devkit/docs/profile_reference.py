"""`docs/profile-reference.md`, made from the types of a profile: the members of a file and their values."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from devkit.docs.tables import docstring, listed
from streamstate.keys import CODECS, TEXT_MAX_BYTES
from streamstate.profile import conditions, measure
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldWords
from streamstate.profile.layout import HISTORY_BYTES
from streamstate.profile.measure import MOST_LISTED, MeasureWords
from streamstate.profile.rules.rule import RuleWords
from streamstate.state.operations import DAY_MS

PATH = Path("docs/profile-reference.md")
_TYPES: Mapping[Any, str] = {str: "text", int: "number", bool: "true or false", bool | None: "true or false"}
_COMPARED = {
    "eq": "equal",
    "ne": "not equal",
    "lt": "less",
    "le": "less or equal",
    "gt": "greater",
    "ge": "greater or equal",
    "in": "one of a list",
}
_FIELDS = (
    ("`int`", "whole number from -2^63 to 2^63 - 1"),
    ("`str`", f"text of up to {TEXT_MAX_BYTES:,} characters"),
    (
        "`int(text)`",
        'whole number of 64 bits, or its text, in the digits of JSON: `42` or `"42"`, not `"042"`, `"4_2"` or `"42.0"`',
    ),
    (
        "`time(s)`, `time(ms)`, `time(us)`, `time(ns)`",
        (
            "time since 1970, as a number or its text without an exponent, [bounded](using.md#times-of-events) by "
            "Kafka's timestamp; whole milliseconds in conditions and answers"
        ),
    ),
    ("`bool`", "`true`, `false`"),
    (
        "`decimal(1)` to `decimal(9)`",
        "number, or its text, with up to so many decimals, and of 64 bits; summed exactly",
    ),
    (
        "`decimal(1, round)` to `decimal(9, round)`",
        (
            "the same, with further decimals rounded half to even, as a sum of floats has them: `0.30000000000000004`; "
            'within braces, in quotes: `fields: {price: "decimal(2, round)"}`'
        ),
    ),
)


_HEAD = """# Reference of profiles

Made from the source by `make docs`. [A profile in ten minutes](profile.md) has examples.

## Members of a file
"""
_MEASURE = """## Members of a measure

One of the members before `of`, and further members:
"""
_NESTED = """{nested}
Example: `device: {{type: str, member: user.device}}`. A member of another type makes its record a dead letter; a
record without a value, such as a tombstone, is no event, and counts in the metric `null_values`.

## Conditions

All comparisons of `where` must hold; with an absent field, a comparison is false:
"""
_REST = """`any` holds if a condition of its list holds, `all` if all conditions hold:
`where: {{durationMs: {{ge: 30000}}, any: [{{device: {{eq: phone}}}}, {{device: {{eq: tv}}}}]}}`.

## Limits

- A window is a whole number with a unit ({units}), up to {days}d.
- `top` and `recent` list up to {listed:,} values.
- The name of a measure has letters, digits and `_`, begins with a letter, and is not `key`, `windows` or `other`.
- Numbers without a window, over all keys, or with `index` are exact up to 2^53; a record beyond is a dead letter.
  Totals of other windows have no limit.
- `by` is for {split}; `sessions` need a window.
- [`index`](profile.md#9-find-users-by-a-value) is for `count` and `total` without `by`, and a path that goes on behind
  `<key>`.
- `values` bounds what a key keeps, as clients choose values. The first values have numbers of their own; the answer's
  `other` has the number of all others by measure and window, if there are others. First is by the order of the log, and
  in a window by the time of the first event. A `distinct` with others is a lower bound. Over all keys, each partition
  keeps so many, with windows in each slot; `by` then answers the first by text.
- A day of a key's history, from which windows are counted, has up to {history} MiB, some 45,000 events. Further events
  are in no window and no rule over one; the window's `leftOut` in the answer is their number. That is also the bound of
  `top` and `distinct` in a window, and of `sessions`.
- Windows over all keys begin and end with a slot of five minutes, without `sessions`, `recent`, and `first` and `last`
  of a field.
- `every` is for `count` and `total` over windows, without `by`: a multiple of 5m, and a part of a day. The answer
  lists the periods from the first with an event to the last, each with its `start`, the number, and `usual`, the
  median at the same time of all days. Parameters `from` and `to` select periods. With `every` at all windows of a
  profile, windows begin and end with the shortest period.
"""


def text() -> str:
    """The whole page."""
    parts = [
        _HEAD,
        _members(Declaration),
        f"Types of keys: {', '.join(f'`{name}`' for name in CODECS)}.\n",
        _MEASURE,
        _members(MeasureWords),
        "## Members of a rule\n",
        _members(RuleWords),
        "## Types of fields\n",
        "".join(f"- {name}: {values}\n" for name, values in _FIELDS),
        _NESTED.format(nested=docstring(FieldWords)),
        ", ".join(f"`{name}` ({_COMPARED[name]})" for name in conditions._OPERATORS) + ".",
        _REST.format(
            history=HISTORY_BYTES // 2**20,
            units=", ".join(f"`{unit}`" for unit in measure.UNITS),
            days=measure.MOST_WINDOW_MS // DAY_MS,
            listed=MOST_LISTED,
            split=", ".join(f"`{kind}`" for kind in measure.SPLIT),
        ),
    ]
    return "\n".join(parts)


def _members(kind: type[msgspec.Struct]) -> str:
    """The members of `kind`, with the meanings of its docstring."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    return listed((name, f" ({_value(fields[name])}): {meaning}") for name, meaning in _meanings(kind).items())


def _meanings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The texts after `name:` in the docstring, by name."""
    names = [field.name for field in msgspec.structs.fields(kind)]
    pieces = re.split(rf"(?:^|(?<=\. ))((?:(?:{'|'.join(names)})(?:, )?)+): ", docstring(kind))
    return {
        name: f"{meaning.strip().rstrip('.')}"
        for listed, meaning in zip(pieces[1::2], pieces[2::2], strict=True)
        for name in listed.split(", ")
    }


def _value(field: msgspec.structs.FieldInfo) -> str:
    kind = _TYPES.get(field.type, "list or text" if field.name == "over" else "map")
    return f"{kind}, required" if field.required else kind
