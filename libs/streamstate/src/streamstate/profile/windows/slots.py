"""Measures over all keys with trailing windows, from numbers by slot of five minutes, in a hash a day."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from streamstate.app import LATE, Count, Effect, FoldContext, Record
from streamstate.profile.declaration import Declaration
from streamstate.profile.layout import Layout
from streamstate.profile.measure import SLOT_MS
from streamstate.profile.numbers import Get, Numbers, merged, number_adder, numbers_of, ranked, scorer
from streamstate.state.operations import DAY_MS, Delete, Fields, Merge, Read

SLOTS = "slots"
"""The hash with the stream time (`TIME`), and the prefix of the hashes of days."""
TIME = "time"


def slot_span(at: int, length_ms: int) -> tuple[int, int]:
    """The first and last moment of the slots of a window that ends at `at`."""
    return (at - length_ms) // SLOT_MS * SLOT_MS, at // SLOT_MS * SLOT_MS + SLOT_MS - 1


class SlotFold:
    """The effects of events on the slots of `declared`. get: a field → its getter of a record."""

    def __init__(self, declared: Declaration, get: Callable[[str], Get]) -> None:
        self._kept_ms = declared.kept_ms
        layout = Layout(declared)
        self._adders = [number_adder(each, declared.types, get) for each in layout.windowed_numbers]
        self._rankings = [
            (name, scorer(measure, declared.types, get), measure.where.compiled(get))
            for name, measure in layout.windowed_rankings.each.items()
        ]
        self._in_windows = layout.in_windows.compiled(get)

    def effects(self, events: Sequence[Record[Any, Any]], now: int, context: FoldContext) -> Iterable[Effect]:
        """Numbers of a slot are commutative. A day is deleted when the stream time passes its end by the kept time.

        now: the stream time after the events.
        """
        by_slot: defaultdict[int, list[Record[Any, Any]]] = defaultdict(list)
        late = 0
        for event in events if self._in_windows is None else filter(self._in_windows, events):
            if event.timestamp // DAY_MS < self._first_day(event.stream_time):
                late += 1
            else:
                by_slot[event.timestamp // SLOT_MS].append(event)
        by_day: defaultdict[int, tuple[Numbers, Numbers, Numbers]] = defaultdict(lambda: ({}, {}, {}))
        for slot, of_slot in by_slot.items():
            self._add(slot, of_slot, by_day[slot * SLOT_MS // DAY_MS])
        for day, numbers in by_day.items():
            yield Merge(day_key(day), *numbers)
        yield Merge(SLOTS, most={TIME: now})
        stored = range(self._first_day(context.time), context.time // DAY_MS + 1)
        for day in sorted({*stored, *by_day}):
            if day < self._first_day(now):
                yield Delete(day_key(day))
        if late:
            yield Count(LATE, late)

    def _first_day(self, stream_time: int) -> int:
        return max(0, stream_time - self._kept_ms) // DAY_MS

    def _add(self, slot: int, events: Sequence[Any], numbers: tuple[Numbers, Numbers, Numbers]) -> None:
        of_slot: tuple[Numbers, Numbers, Numbers] = ({}, {}, {})
        for add_numbers in self._adders:
            add_numbers(events, *of_slot)
        for name, score, kept in self._rankings:
            by = score(events if kept is None else filter(kept, events))
            of_slot[0].update({f"{name}.values:{member}": number for member, number in by.items()})
        for of_day, fields in zip(numbers, of_slot, strict=True):
            of_day.update({f"{slot}:{field}": number for field, number in fields.items()})


class SlotWindows:
    """The measures of `declared` that have windows."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._layout = Layout(declared)
        self._longest_ms = declared.windows[0].ms

    def reads(self, at: int) -> Sequence[Read]:
        """The reads of windows that end at `at`, or some hours later."""
        first = slot_span(at, self._longest_ms)[0] // DAY_MS
        return [Fields(SLOTS), *(Fields(day_key(day)) for day in range(first, at // DAY_MS + 2))]

    def expired(self, partitions: Iterable[Mapping[str, int]]) -> int:
        """The moment (milliseconds) before which a partition has no slots, given the values of `SLOTS`."""
        times = [max(0, fields.get(TIME, 0) - self._declared.kept_ms) for fields in partitions]
        return max(times, default=0) // DAY_MS * DAY_MS

    def values(
        self, days: Iterable[Mapping[str, int]], spans: Mapping[str, tuple[int, int]]
    ) -> dict[str, dict[str, Any]]:
        """The value of each measure by window, given the hashes of all days of all partitions."""
        by_slot: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        for day in days:
            for name, number in day.items():
                slot, _, field = name.partition(":")
                by_slot[int(slot)].append((field, number))
        found: dict[str, dict[str, Any]] = {measure.name: {} for measure in self._layout.windowed}
        for window in self._declared.windows:
            first, last = (moment // SLOT_MS for moment in spans[window.label])
            within = [fields for slot, fields in by_slot.items() if first <= slot <= last]
            numbers = merged(self._layout.windowed_numbers, within)
            values = numbers_of(self._layout.windowed_numbers, numbers) | self._ranked(numbers)
            for measure in self._layout.windowed:
                if window in measure.windows:
                    found[measure.name][window.label] = values[measure.name]
        return found

    def _ranked(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        rankings, types = self._layout.windowed_rankings, self._declared.types
        scores: dict[str, dict[str, int]] = {name: {} for name in rankings.each}
        for field, score in numbers.items():
            name, separator, member = field.partition(".values:")
            if separator and name in scores:
                scores[name][member] = score
        found = {}
        for measure in rankings.measures:
            value = ranked(measure, scores[rankings.name(measure)])
            found[measure.name] = value if measure.kind == "distinct" else types[measure.field].stored_ranking(value)
        return found


def day_key(day: int) -> str:
    """The state key of a day since 1970."""
    return f"{SLOTS}:{day}"
