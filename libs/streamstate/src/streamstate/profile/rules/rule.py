"""A rule of a profile: its words as written, and resolved. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from streamstate.profile.conditions import Condition, condition
from streamstate.profile.fields import FieldType
from streamstate.profile.measure import (
    EVER,
    Measure,
    TrailingWindow,
    duration_ms,
    require,
    require_known,
    require_name,
)
from streamstate.profile.numbers import is_number

_VALUES = ("count", "total", "least", "most", "distinct", "sessions")
"""The kinds of measures with one number."""

STREAM = "stream"
"""The last part of the path of a stream."""


class RuleWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule as written.

    when: comparisons of one measure, as of `where`. over: a window of the measure, or `ever`; by default the only one.
        cooldown: how long after a record of a key the rule sends no other, such as `1h`.
    """

    when: dict[str, Any]
    over: str = ""
    cooldown: str = ""


class Rule(msgspec.Struct, frozen=True):
    """A rule, resolved. window: None for `ever`. of: the type of the value."""

    name: str
    measure: Measure
    window: TrailingWindow | None
    when: Condition
    cooldown_ms: int
    of: FieldType


def resolve_rule(name: str, words: RuleWords, measures: Mapping[str, Measure], types: Mapping[str, FieldType]) -> Rule:
    """The rule called `name`. Raises `BadDeclaration`."""
    place = ("rules", name)
    require_name(name, "rule", *place)
    require(name != STREAM, f"{STREAM} ends the paths of streams of rules: give the rule another name", *place)
    one = len(words.when) == 1
    require(one, "a rule compares one measure, such as when: {plays: {gt: 50}}", *place, "when")
    (subject,) = map(str, words.when)
    require_known(subject, measures, "measure", *place, "when")
    measure = measures[subject]
    single = measure.kind in _VALUES and not measure.by
    require(single, f"{subject} is not one number: a rule is for {', '.join(_VALUES)} without by", *place, "when")
    label = words.over or (measure.labels[0] if len(measure.labels) == 1 else "")
    named = f"{subject} is over {', '.join(measure.labels)}; name one, such as over: {measure.labels[0]}"
    require(label in measure.labels, named, *place, "over")
    stored = label != EVER or is_number(measure)
    require(stored, f"a rule of {measure.kind} has a window, not ever", *place, "over")
    of = types[measure.field] if measure.kind in ("total", "least", "most") else FieldType("int", 0, subject, "")
    try:
        when = condition(words.when, {subject: of})
    except ValueError as error:
        require(False, str(error), *place, "when")
        raise
    window = next((each for each in measure.windows if each.label == label), None)
    cooldown = duration_ms(words.cooldown, *place, "cooldown") if words.cooldown else 0
    return Rule(name, measure, window, when, cooldown, of)
