"""Measures over all keys with trailing windows, from numbers by slot of time, in a hash a day."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from statistics import median
from typing import Any

from streamstate.app import LATE, Count, Effect, FoldContext, Record
from streamstate.profile.declaration import Declaration
from streamstate.profile.layout import Layout
from streamstate.profile.measure import Measure
from streamstate.profile.numbers import (
    COUNT,
    Get,
    Numbers,
    groups_of,
    is_bound,
    is_plain,
    merged,
    number_adder,
    numbers_of,
    other_name,
    ranked,
    scorer,
)
from streamstate.state.operations import DAY_MS, Delete, Fields, Groups, Merge, Read

SLOTS = "slots"
"""The hash with the stream time (`TIME`), and the prefix of the hashes of days."""
TIME = "time"


Events = Sequence[Record[Any, Any]]
_timestamp = attrgetter("timestamp")

OfDay = tuple[Numbers, Numbers, Numbers, dict[str, Groups]]
"""The sums, the least and the most of a day, and the bounds of the fields by value."""

Slots = Mapping[int, Sequence[tuple[str, int]]]
"""The fields and numbers of each slot, by the number of the slot since 1970."""

Period = tuple[int, int, float]
"""The start of a period in milliseconds since 1970, its number, and the median of the same time of all days."""


def slot_span(at: int, length_ms: int, slot_ms: int) -> tuple[int, int]:
    """The first and last moment of the slots of a window that ends at `at`."""
    return (at - length_ms) // slot_ms * slot_ms, at // slot_ms * slot_ms + slot_ms - 1


class SlotFold:
    """The effects of events on the slots of `declared`. get: a field → its getter of a record."""

    def __init__(self, declared: Declaration, get: Callable[[str], Get]) -> None:
        self._kept_ms, self._slot_ms = declared.kept_ms, declared.slot_ms
        layout = Layout(declared)
        added = [measure for measure in layout.windowed_numbers if not _is_slot_count(measure)]
        self._counts = len(added) < len(layout.windowed_numbers)
        self._split = [measure for measure in added if measure.by]
        self._adders = [number_adder(measure, declared.types, get) for measure in added]
        self._rankings = [
            (name, measure.values, scorer(measure, declared.types, get))
            for name, measure in layout.windowed_rankings.each.items()
        ]
        self._in_windows = layout.in_windows.compiled(get)

    def effects(self, events: Events, now: int, context: FoldContext) -> Iterable[Effect]:
        """Numbers of a slot are commutative. A day is deleted when the stream time passes its end by the kept time.

        now: the stream time after the events.
        """
        counted = events if self._in_windows is None else [*filter(self._in_windows, events)]
        kept = self._without_late(counted, now)
        by_day: defaultdict[int, OfDay] = defaultdict(lambda: ({}, {}, {}, {}))
        for slot, of_slot in self._by_slot(kept).items():
            self._add(slot, of_slot, by_day[slot * self._slot_ms // DAY_MS])
        for day, numbers in by_day.items():
            yield Merge(day_key(day), *numbers)
        yield Merge(SLOTS, most={TIME: now})
        stored = range(self._first_day(context.time), context.time // DAY_MS + 1)
        for day in sorted({*stored, *by_day}):
            if day < self._first_day(now):
                yield Delete(day_key(day))
        if late := len(counted) - len(kept):
            yield Count(LATE, late)

    def _without_late(self, events: Events, now: int) -> Events:
        if not events or min(map(_timestamp, events)) // DAY_MS >= self._first_day(now):
            return events
        return [event for event in events if event.timestamp // DAY_MS >= self._first_day(event.stream_time)]

    def _by_slot(self, events: Events) -> Mapping[int, Events]:
        slots = [event.timestamp // self._slot_ms for event in events]
        # The events of a batch without a backlog are of one slot.
        if len(set(slots)) == 1:
            return {slots[0]: events}
        grouped: defaultdict[int, list[Record[Any, Any]]] = defaultdict(list)
        for slot, event in zip(slots, events, strict=True):
            grouped[slot].append(event)
        return grouped

    def _first_day(self, stream_time: int) -> int:
        return max(0, stream_time - self._kept_ms) // DAY_MS

    def _add(self, slot: int, events: Sequence[Any], of_day: OfDay) -> None:
        numbers: tuple[Numbers, Numbers, Numbers] = ({COUNT: len(events)} if self._counts else {}, {}, {})
        for add_numbers in self._adders:
            add_numbers(events, *numbers)
        groups = groups_of(self._split, numbers)
        for name, limit, score in self._rankings:
            by = score(events)
            numbers[0].update({f"{name}.values:{member}": number for member, number in by.items()})
            groups[f"{name}.values"] = Groups(limit, list(by))
        for fields, of_slot in zip(of_day[:3], numbers, strict=True):
            fields.update({f"{slot}:{field}": number for field, number in of_slot.items()})
        of_day[3].update({f"{slot}:{prefix}": of for prefix, of in groups.items()})


class SlotWindows:
    """The measures of `declared` that have windows."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._layout = Layout(declared)
        self._longest_ms = declared.windows[0].ms
        self._only_sums = not any(is_bound(measure) for measure in self._layout.windowed)
        self._only_periods = all(measure.every_ms for measure in self._layout.windowed)

    def reads(self, at: int) -> Sequence[Read]:
        """The reads of windows that end at `at`, or some hours later."""
        first = slot_span(at, self._longest_ms, self._declared.slot_ms)[0] // DAY_MS
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
        # Partitions have the same fields: a sum is parsed once.
        for day in [_summed(days)] if self._only_sums else days:
            for name, number in day.items():
                slot, _, field = name.partition(":")
                by_slot[int(slot)].append((field, number))
        found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for window in self._declared.windows:
            first, last = (moment // self._declared.slot_ms for moment in spans[window.label])
            within = {slot: fields for slot, fields in by_slot.items() if first <= slot <= last}
            numbers = {} if self._only_periods else merged(self._layout.windowed_numbers, within.values())
            values = numbers_of(self._layout.windowed_numbers, numbers) | self._ranked(numbers)
            for measure in self._layout.windowed:
                if window in measure.windows:
                    for name in values.keys() & {measure.name, other_name(measure.name)}:
                        found[name][window.label] = values[name]
                    if measure.every_ms:
                        found[measure.name][window.label] = self._periods(measure, within)
        return found

    def _periods(self, measure: Measure, slots: Slots) -> list[Period]:
        """The number of each period, from the first period with an event to the last."""
        name = COUNT if _is_slot_count(measure) else measure.name
        slots_of_period = measure.every_ms // self._declared.slot_ms
        numbers: Counter[int] = Counter()
        for slot, fields in slots.items():
            for field, number in fields:
                if field == name:
                    numbers[slot // slots_of_period] += number
        periods = range(min(numbers), max(numbers) + 1) if numbers else range(0)
        same_time: defaultdict[int, list[int]] = defaultdict(list)
        for period in periods:
            same_time[period * measure.every_ms % DAY_MS].append(numbers[period])
        usual = {time: median(counts) for time, counts in same_time.items()}
        starts = ((period * measure.every_ms, numbers[period]) for period in periods)
        return [(start, number, usual[start % DAY_MS]) for start, number in starts]

    def _ranked(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        rankings, types = self._layout.windowed_rankings, self._declared.types
        scores: dict[str, dict[str, int]] = {name: {} for name in rankings.each}
        for field, score in numbers.items():
            name, separator, member = field.partition(".values:")
            if separator and name in scores:
                scores[name][member] = score
        found: dict[str, Any] = {}
        for measure in rankings.measures:
            value = ranked(measure, scores[rankings.name(measure)])
            found[measure.name] = value if measure.kind == "distinct" else types[measure.field].stored_ranking(value)
            if (others := numbers.get(f"{rankings.name(measure)}.values")) is not None:
                found[other_name(measure.name)] = others
        return found


def _summed(days: Iterable[Mapping[str, int]]) -> Numbers:
    numbers: Numbers = {}
    for day in days:
        for name, number in day.items():
            numbers[name] = numbers.get(name, 0) + number
    return numbers


def _is_slot_count(measure: Measure) -> bool:
    """Whether a measure counts all events of a slot: such measures of several periods are stored once."""
    return measure.every_ms > 0 and is_plain(measure)


def day_key(day: int) -> str:
    """The state key of a day since 1970."""
    return f"{SLOTS}:{day}"
