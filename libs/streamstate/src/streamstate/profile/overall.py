"""The answer of a profile over all keys: its measures from the read state of all partitions."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from streamstate.profile.answer import NOW, Moment, present_ms, require_kept, without_windows
from streamstate.profile.answer_type import AnswerType
from streamstate.profile.declaration import Declaration
from streamstate.profile.layout import Layout
from streamstate.profile.numbers import merged, ranked, summed
from streamstate.profile.windows.slots import SlotWindows, slot_span
from streamstate.state.operations import Read


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
        slots = self._windows.reads(_end(query)) if self._declared.windows else []
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
        at = _end(query)
        spans = {window.label: slot_span(at, window.ms) for window in self._declared.windows}
        self._add_trailing(found, slots, spans)
        return self._shape(None, found, spans)

    def _add_trailing(
        self, found: Mapping[str, dict[str, Any]], slots: Sequence[Sequence[Mapping[str, int]]], spans: Any
    ) -> None:
        longest = self._declared.windows[0]
        times, *days = slots
        require_kept(spans[longest.label][0], self._windows.expired(times), longest.ms)
        for name, values in self._windows.values((day for column in days for day in column), spans).items():
            found[name].update(values)


def _end(query: Moment) -> int:
    return present_ms() if query.at is None else query.at


def _newest(entry: tuple[str, int]) -> int:
    return -entry[1]
