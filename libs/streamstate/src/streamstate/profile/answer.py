"""The answers of a profile for a key, and over all keys: its measures from the read state."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamstate.errors import BadParameter
from streamstate.operators.pages import MOST_TIME, Time
from streamstate.profile.answer_type import AnswerType, Found, Spans
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import FieldType
from streamstate.profile.layout import Layout
from streamstate.profile.measure import EVER
from streamstate.profile.numbers import COUNT, merged, numbers_of, other_name, ranked, summed
from streamstate.profile.windows.histories import TrailingWindows
from streamstate.profile.windows.slots import SlotWindows, slot_span
from streamstate.state.operations import DAY_MS, Read
from streamstate.view import TIME

Answer = Callable[[Any, Found, Spans], msgspec.Struct]
History = tuple[int, Mapping[int, str], Mapping[int, int]]
"""The answer of `HistoryDays`."""


At = Annotated[
    Annotated[int, Meta(ge=0, le=2**53)] | None,
    Meta(
        description="the end of the windows, in milliseconds since 1970 or ISO 8601; by default the present", extra=TIME
    ),
]


class Moment(msgspec.Struct, frozen=True):
    """The parameters of a request."""

    at: At = None


class Periods(Moment, frozen=True, rename={"from_": "from"}):
    """The parameters of a request with the periods wanted of measures with `every`."""

    from_: Annotated[Time, Meta(description="the first time, inclusive, in milliseconds since 1970 or ISO 8601")] = 0
    to: Annotated[Time, Meta(description="the end of the times, exclusive, likewise")] = MOST_TIME


NOW = Moment()


def without_windows(
    layout: Layout, types: Mapping[str, FieldType], numbers: Mapping[str, int], lists: Sequence[Any]
) -> dict[str, dict[str, Any]]:
    """The values without a window, from the fields of numbers, and the rankings and lists of `Layout.reads`."""
    found: dict[str, Any] = dict.fromkeys(layout.plain, numbers.get(COUNT, 0)) | numbers_of(layout.numbers, numbers)
    of_rankings = {measure.name: layout.rankings.name(measure) for measure in layout.ranked}
    found |= {other_name(name): numbers[of] for name, of in of_rankings.items() if of in numbers}
    for measure, members in zip(layout.ranked, lists, strict=False):
        of = types[measure.field]
        found[measure.name] = members if measure.kind == "distinct" else of.stored_ranking(members)
    for measure, entries in zip(layout.listed, lists[len(layout.ranked) :], strict=True):
        listed = [(msgspec.json.decode(text.partition(" ")[2]), time) for text, time in entries]
        single = listed[0][0] if listed else None
        found[measure.name] = listed[: measure.n] if measure.kind == "recent" else single
    windowed = (measure.name for measure in layout.declared.resolved if not measure.ever)
    return {name: {EVER: value} for name, value in found.items()} | {name: {} for name in windowed}


def end_ms(at: int | None) -> int:
    """The end of the windows of a request, in milliseconds since 1970."""
    return int(time.time() * 1000) if at is None else at


def require_kept(start: int, expired: int, length_ms: int) -> None:
    """Raise `BadParameter` for a window from `start` on, when the events before `expired` are expired."""
    if max(0, start) < expired:
        earliest = expired + length_ms
        msg = f"at: the earliest moment is {earliest}, because the events before {expired} are expired"
        raise BadParameter(msg)


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

    def reads(self, key: Any, _query: Moment = NOW) -> Sequence[Read]:
        return self._layout.reads(key)

    def answer(self, key: Any, values: Sequence[Any], query: Moment = NOW) -> msgspec.Struct | None:
        """The answer for one key; None for a key without events. Raises `BadParameter` for a moment too long ago."""
        numbers, *lists = values
        if not numbers:
            return None
        if not self._declared.windows:
            return self._shape(key, without_windows(self._layout, self._declared.types, numbers, lists), {})
        *lists, history = lists
        at = end_ms(query.at)
        spans = {window.label: (at - window.ms, at) for window in self._declared.windows}
        found = without_windows(self._layout, self._declared.types, numbers, lists)
        self._add_trailing(key, found, history, spans)
        return self._shape(key, found, {label: _told(span, history[2]) for label, span in spans.items()})

    def _add_trailing(
        self, key: Any, found: dict[str, dict[str, Any]], history: History, spans: Mapping[str, tuple[int, int]]
    ) -> None:
        """Add the values of each window. Raises `BadParameter` for a moment too long ago."""
        expired, days, _ = history
        longest = self._declared.windows[0]
        require_kept(spans[longest.label][0], expired, longest.ms)
        _add(found, self._windows.values(key, days, spans))


class OverallView:
    """`View.reads` and `View.answer` of a declaration over all keys."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._layout = Layout(declared)
        self._shape = AnswerType(declared).answer

    def __reduce__(self) -> Any:
        return OverallView, (self._declared,)

    @cached_property
    def _windows(self) -> SlotWindows:
        return SlotWindows(self._declared)

    def reads(self, query: Moment = NOW) -> Sequence[Read]:
        """The reads of `answer` in a partition."""
        slots = self._windows.reads(end_ms(query.at)) if self._declared.windows else []
        return [*self._layout.reads(), *slots]

    def answer(self, partitions: Sequence[Sequence[Any]], query: Moment = NOW) -> msgspec.Struct:
        """The answer from the values of all partitions. Raises `BadParameter` for a moment too long ago."""
        layout, types = self._layout, self._declared.types
        numbers, *columns = (list(column) for column in zip(*partitions, strict=True))
        lists, slots = columns[: len(layout.ranked) + len(layout.listed)], columns[len(layout.reads()) - 1 :]
        of_rankings = [ranked(each, summed(column)) for each, column in zip(layout.ranked, lists, strict=False)]
        newest = [
            sorted((entry for entries in column for entry in entries), key=_newest)
            for column in lists[len(layout.ranked) :]
        ]
        fields = merged(layout.numbers, (each.items() for each in numbers))
        found = without_windows(layout, types, fields, [*of_rankings, *newest])
        if not self._declared.windows:
            return self._shape(None, found, {})
        at = end_ms(query.at)
        slot_ms = self._declared.slot_ms
        spans = {window.label: slot_span(at, window.ms, slot_ms) for window in self._declared.windows}
        self._add_trailing(found, slots, spans)
        if isinstance(query, Periods):
            self._select_periods(found, query)
        return self._shape(None, found, spans)

    def _add_trailing(
        self, found: dict[str, dict[str, Any]], slots: Sequence[Sequence[Mapping[str, int]]], spans: Any
    ) -> None:
        longest = self._declared.windows[0]
        times, *days = slots
        require_kept(spans[longest.label][0], self._windows.expired(times), longest.ms)
        _add(found, self._windows.values((day for column in days for day in column), spans))

    def _select_periods(self, found: Mapping[str, dict[str, Any]], query: Periods) -> None:
        for measure in self._declared.resolved:
            if measure.every_ms:
                for label, periods in found[measure.name].items():
                    wanted = [period for period in periods if query.from_ <= period[0] < query.to]
                    found[measure.name][label] = wanted


def _add(found: dict[str, dict[str, Any]], values: Mapping[str, Mapping[str, Any]]) -> None:
    for name, by_label in values.items():
        found.setdefault(name, {}).update(by_label)


def _told(span: tuple[int, ...], left_out: Mapping[int, int]) -> tuple[int, ...]:
    """A window's first and last moment, and how many events of its days are left out, if any."""
    first, last = (moment // DAY_MS for moment in span)
    number = sum(events for day, events in left_out.items() if first <= day <= last)
    return (*span, number) if number else span


def _newest(entry: tuple[str, int]) -> int:
    return -entry[1]
