"""The answer of a profile: its measures from the read state, and from the events of a window."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamstate.errors import BadParameter
from streamstate.profile.answer_type import AnswerType, Found, Spans
from streamstate.profile.declaration import Declaration
from streamstate.profile.layout import COUNT, Layout
from streamstate.profile.measure import EVER, Measure
from streamstate.profile.windows import TrailingWindows
from streamstate.state.operations import Read

Answer = Callable[[Any, Found, Spans], msgspec.Struct]


class Moment(msgspec.Struct, frozen=True):
    """The parameters of a request."""

    at: Annotated[
        Annotated[int, Meta(ge=0, le=2**53)] | None,
        Meta(description="the end of the windows, in milliseconds since 1970; by default the present"),
    ] = None


NOW = Moment()


class ProfileView:
    """`View.reads` and `View.answer` of a declaration.

    shape: makes the answer from key, values and spans; by default the type made from the declaration.
    """

    def __init__(self, declared: Declaration, shape: Answer | None = None) -> None:
        self._declared = declared
        self._layout = Layout(declared)
        self._own_shape = shape
        self._shape = shape or AnswerType(declared).answer

    def __reduce__(self) -> Any:
        return ProfileView, (self._declared, self._own_shape)

    @cached_property
    def _windows(self) -> TrailingWindows:
        return TrailingWindows(self._declared)

    def reads(self, key: Any = "", _query: Moment = NOW) -> Sequence[Read]:
        """The reads of `answer`, or without a key of `merged`."""
        return self._layout.reads(key)

    def answer(self, key: Any, values: Sequence[Any], query: Moment = NOW) -> msgspec.Struct | None:
        """The answer for one key; None for a key without events. Raises `BadParameter` for a moment too long ago."""
        numbers, *lists = values
        if not numbers:
            return None
        if not self._declared.windows:
            return self._shape(key, self._ever(numbers, lists), {})
        *lists, history = lists
        at = int(time.time() * 1000) if query.at is None else query.at
        spans = {window.label: (at - window.ms, at) for window in self._declared.windows}
        found = self._ever(numbers, lists)
        self._add_trailing(found, history, spans)
        return self._shape(key, found, spans)

    def merged(self, partitions: Sequence[Sequence[Any]]) -> msgspec.Struct:
        """The answer over all keys, from the values of all partitions."""
        bounds = {m.name: min if m.kind in ("least", "first") else max for m in self._layout.numbers if _bound(m)}
        numbers: dict[str, int] = {}
        for fields, *_ in partitions:
            for field, number in fields.items():
                held = numbers.get(field)
                merge = bounds.get(field.partition(":")[0])
                numbers[field] = number if held is None else merge(held, number) if merge else held + number
        ranked, lists = len(self._layout.ranked), [list(columns) for columns in zip(*partitions, strict=True)][1:]
        merged = [_ranking(each, measure) for each, measure in zip(lists, self._layout.ranked, strict=False)]
        merged += [sorted((e for entries in each for e in entries), key=_newest) for each in lists[ranked:]]
        return self._shape(None, self._ever(numbers, merged), {})

    def _ever(self, numbers: Mapping[str, int], lists: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """The values without a window."""
        found = self._numbers(numbers)
        ranked, types = self._layout.ranked, self._declared.types
        for measure, members in zip(ranked, lists, strict=False):
            of = types[measure.field]
            found[measure.name] = members if measure.kind == "distinct" else of.stored_ranking(members)
        for measure, entries in zip(self._layout.listed, lists[len(ranked) :], strict=True):
            listed = [(msgspec.json.decode(text.partition(" ")[2]), time) for text, time in entries]
            single = listed[0][0] if listed else None
            found[measure.name] = listed[: measure.n] if measure.kind == "recent" else single
        return {
            measure.name: {EVER: found[measure.name]} if measure.ever else {} for measure in self._declared.resolved
        }

    def _numbers(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(self._layout.plain, numbers.get(COUNT, 0))
        for measure in self._layout.numbers:
            name = measure.name
            if measure.by:
                prefix = f"{name}:"
                fields = [field for field in numbers if field.startswith(prefix)]
                found[name] = {field.removeprefix(prefix): _number(measure, field, numbers) for field in fields}
            else:
                found[name] = _number(measure, name, numbers)
        return found

    def _add_trailing(
        self, found: Mapping[str, dict[str, Any]], history: tuple[int, Mapping[int, str]], spans: Spans
    ) -> None:
        """Add the values of each window. Raises `BadParameter` for a moment too long ago."""
        expired, days = history
        longest = self._declared.windows[0]
        if max(0, spans[longest.label][0]) < expired:
            earliest = expired + longest.ms
            msg = f"at: the earliest moment is {earliest}, because the events before {expired} are expired"
            raise BadParameter(msg)
        for name, values in self._windows.values(days, spans).items():
            found[name].update(values)


def _number(measure: Measure, field: str, numbers: Mapping[str, int]) -> Any:
    """The value in a field, or of no event."""
    number = numbers.get(field)
    if number is None:
        return 0 if measure.kind in ("count", "total") else None
    return (number, numbers[COUNT + field]) if measure.kind == "mean" else number


def _bound(measure: Measure) -> bool:
    return measure.kind in ("least", "most", "first", "last")


def _ranking(partitions: Iterable[Iterable[tuple[str, int]]], measure: Measure) -> Any:
    """The ranking over all partitions, or the number of its members."""
    scores: Counter[str] = Counter()
    for members in partitions:
        for member, score in members:
            scores[member] += score
    if measure.kind == "distinct":
        return len(scores)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0].encode()))[: measure.n]


def _newest(entry: tuple[str, int]) -> int:
    return -entry[1]
