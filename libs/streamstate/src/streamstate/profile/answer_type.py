"""The type of a profile's answer, made from its declaration."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from streamstate.keys import CODECS
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import TIMESTAMP, FieldType
from streamstate.profile.measure import Measure
from streamstate.profile.numbers import other_name

NUMBER_KEYS = ("long", "int", "digits")
"""The types of keys that are numbers in an answer."""

_UNITLESS = ("count", "distinct", "sessions", "top", "recent")
"""The kinds whose numbers are counts or times."""

_EXAMPLE_END = 1_767_297_600_000

_OTHER = "the numbers of further values by measure and window: a measure keeps numbers of so many values"

Shape = Callable[[Any], Any]

Found = Mapping[str, Mapping[str, Any]]
"""The values of each measure by window or `ever`, as in the state: a top is a list of pairs, a mean total and count.

Under `numbers.other_name` the numbers of further values of a measure, where there are some.
"""

Spans = Mapping[str, tuple[int, ...]]
"""The first and last moment of each window, by label, and the number of events that are left out, if any."""


class WindowSpan(msgspec.Struct, rename={"from_": "from", "left_out": "leftOut"}):
    """The first and the last moment of a window, both inclusive, in milliseconds since 1970.

    left_out: how many events of the window's days are in no measure, as a day had too many bytes.
    """

    from_: int
    to: int
    left_out: int | UnsetType = UNSET


Others = dict[str, dict[str, int | float]]
"""The numbers of further values by measure and window, of which only so many have numbers of their own."""


class AnswerType:
    """The struct of the answers of `declared`: the key, the measures, and the windows."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._prefix = "".join(map(str.capitalize, declared.name.split("-")))
        self._names = {WindowSpan.__name__}
        self._shapes = {measure.name: self._shape(measure) for measure in declared.resolved}
        self._spans = [window.label for window in declared.windows]
        members: list[tuple[Any, ...]] = [] if declared.everywhere else [("key", self._key)]
        members += [(measure.name, self._described(measure)) for measure in declared.resolved]
        if self._spans:
            members.append(("windows", self._labelled("Windows", dict.fromkeys(self._spans, WindowSpan))))
        self._bounded = [measure for measure in declared.resolved if measure.values]
        if self._bounded:
            members.append(("other", Annotated[Others | UnsetType, msgspec.Meta(description=_OTHER)], UNSET))
        self.kind = self._struct("", members, declared.summary or f"The profile {declared.name}.")

    @property
    def _key(self) -> type:
        return int if self._declared.key_type in NUMBER_KEYS else str

    def answer(self, key: Any, found: Found, spans: Spans) -> msgspec.Struct:
        values: list[Any] = [] if self._declared.everywhere else [key]
        for measure in self._declared.resolved:
            values.append(self._shapes[measure.name][1](found[measure.name]))
        if self._spans:
            values.append({label: WindowSpan(*spans[label]) for label in self._spans})
        if self._bounded:
            values.append(self._others(found) or UNSET)
        made: msgspec.Struct = self.kind(*values)
        return made

    def _others(self, found: Found) -> Others:
        others = {measure: found.get(other_name(measure.name), {}) for measure in self._bounded}
        return {
            measure.name: {label: self._other(measure, number) for label, number in by_label.items()}
            for measure, by_label in others.items()
            if by_label
        }

    def _other(self, measure: Measure, number: Any) -> Any:
        types = self._declared.types
        if measure.by:
            return self._single(measure)[1](number)
        return types[measure.weight].answered_value(number) if measure.weight else number

    @property
    def example(self) -> msgspec.Struct:
        """An answer, for the document."""
        examples = {each.name: dict.fromkeys(each.labels, self._example(each)) for each in self._declared.resolved}
        key = CODECS[self._declared.key_type].parse("42") if self._key is int else "anna"
        spans = {window.label: (_EXAMPLE_END - window.ms, _EXAMPLE_END) for window in self._declared.windows}
        return self.answer(key, examples, spans)

    def _example(self, measure: Measure) -> Any:
        if measure.every_ms:
            return [(_EXAMPLE_END - measure.every_ms, 3, 3.0)]
        types = self._declared.types
        values: dict[str, Any] = {"int": 42, "str": "folk", "bool": True, "decimal": 100}
        value: Any = _EXAMPLE_END if measure.field == TIMESTAMP else values[types[measure.field or TIMESTAMP].kind]
        match measure.kind:
            case "top":
                single: Any = [(value, 3)]
            case "recent":
                single = [(value, _EXAMPLE_END)]
            case "count" | "distinct" | "sessions":
                single = 3
            case "mean":
                single = (value, 1)
            case _:
                single = value
        return {types[measure.by].text(values[types[measure.by].kind]): single} if measure.by else single

    def _described(self, measure: Measure) -> Any:
        """The type of a measure in the answer, and whose unit its numbers have."""
        kind, _ = self._shapes[measure.name]
        field = measure.weight or ("" if measure.kind in _UNITLESS else measure.field)
        of = self._declared.types.get(field)
        numeric = of and of.kind in ("int", "decimal") and field != TIMESTAMP and not of.unit
        return Annotated[kind, msgspec.Meta(description=f"in the unit of {field}")] if numeric else kind

    def _shape(self, measure: Measure) -> tuple[Any, Shape]:
        """The type of a measure in the answer, and its value in the answer from the values by label."""
        kind, one = self._single(measure)
        each: Shape = one
        if measure.by:
            kind, each = dict[str, kind], lambda split: {by: one(value) for by, value in sorted(split.items())}  # type: ignore[valid-type]
        if len(measure.labels) == 1:
            return kind, lambda found: each(found[measure.labels[0]])
        of_labels = self._labelled(_capital(measure.name), dict.fromkeys(measure.labels, kind))
        return of_labels, lambda found: {label: each(found[label]) for label in measure.labels}

    def _single(self, measure: Measure) -> tuple[Any, Shape]:
        of = self._declared.types[measure.field or TIMESTAMP]
        if measure.every_ms:
            return self._periods(measure, of)
        match measure.kind:
            case "count" | "distinct" | "sessions":
                return int, int
            case "total":
                return of.answered, of.answered_value
            case "mean":
                return float | None, lambda value: None if value is None else value[0] / (value[1] * 10**of.scale)
            case "top":
                weight = self._declared.types[measure.weight or TIMESTAMP]
                number = "total" if measure.weight else "count"
                members = [("value", of.answered), (number, weight.answered)]
                item = self._struct(f"{_capital(measure.name)}Item", members, "A value, and its number.")
                return list[item], lambda top: [  # type: ignore[valid-type]
                    item(of.answered_value(value), weight.answered_value(number)) for value, number in top
                ]
            case "recent":
                members = [("value", of.answered), ("timestamp", int)]
                item = self._struct(f"{_capital(measure.name)}Item", members, "A value, and its event's timestamp.")
                return list[item], lambda recent: [item(of.answered_value(value), at) for value, at in recent]  # type: ignore[valid-type]
            case _:
                return of.answered | None, lambda value: None if value is None else of.answered_value(value)

    def _periods(self, measure: Measure, of: FieldType) -> tuple[Any, Shape]:
        """The type of the numbers of periods: the start (milliseconds since 1970), the number, and the usual number."""
        scale = 10**of.scale if measure.kind == "total" else 1
        number, shape = (of.answered, of.answered_value) if measure.kind == "total" else (int, int)
        members = [("start", int), (measure.kind, number), ("usual", float)]
        item = self._struct(
            f"{_capital(measure.name)}Item", members, "A period, and the median at its time of the day."
        )
        return list[item], lambda periods: [  # type: ignore[valid-type]
            item(start, shape(value), usual / scale) for start, value, usual in periods
        ]

    def _labelled(self, name: str, members: Mapping[str, Any]) -> Any:
        """A type with members by window."""
        return self._struct(name, list(members.items()), "By window.")

    def _struct(self, name: str, members: Sequence[tuple[Any, ...]], doc: str) -> Any:
        """A type with members of any names, each a name, a type and, where it may be absent, a default.

        Its own name is `name`, and a number where that is another type's.
        """
        own = next(own for n in count(1) if (own := f"{self._prefix}{name}{n if n > 1 else ''}") not in self._names)
        self._names.add(own)
        rename = {f"m{index}": member for index, (member, *_) in enumerate(members)}
        typed: list[Any] = [(f"m{index}", *kind) for index, (_, *kind) in enumerate(members)]
        return msgspec.defstruct(own, typed, rename=rename, namespace={"__doc__": doc})


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
