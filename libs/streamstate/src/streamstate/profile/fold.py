"""The fold of a profile: events, by key, into changes of its state."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET

from streamstate.app import LATE, NULLS, Count, Effect, FoldContext, Record
from streamstate.keys import LONG_MAX, sortable
from streamstate.profile.declaration import Declaration
from streamstate.profile.fields import TIMESTAMP
from streamstate.profile.indexes.fold import IndexFold
from streamstate.profile.indexes.layout import indexes_of
from streamstate.profile.layout import EVENTS, HISTORY_BYTES, NUMBERS, Layout, length
from streamstate.profile.numbers import COUNT, Get, Numbers, groups_of, number_adder, scorer
from streamstate.profile.rules.fold import RuleFold
from streamstate.profile.windows.slots import SlotFold
from streamstate.state.operations import DAY_MS, AppendLines, ExpireDays, Groups, IncrementScores, Merge, PushRecent

Events = Sequence[Record[Any, Any]]

_lines = msgspec.json.Encoder().encode_lines


class ProfileFold:
    """`Fold.apply` of a declaration. `attributes` are the attributes of an event's fields."""

    def __init__(self, declared: Declaration, attributes: Mapping[str, str]) -> None:
        self.declared = declared
        self._attributes = attributes
        layout = self._layout = Layout(declared)
        self._split = [measure for measure in layout.numbers if measure.by]
        self._adders = [number_adder(measure, declared.types, self._get) for measure in layout.numbers]
        self._rankings = [
            (name, measure.values, scorer(measure, declared.types, self._get))
            for name, measure in layout.rankings.each.items()
        ]
        self._lists = [(each, self._get(each.field), each.where.compiled(self._get)) for each in layout.listed]
        self._columns = [self._get(field) for field in declared.windowed_fields]
        self._in_windows = layout.in_windows.compiled(self._get)
        self._rules = RuleFold(declared, self._get) if declared.rules else None
        self._slots = SlotFold(declared, self._get) if declared.everywhere and layout.windowed else None
        indexes = indexes_of(declared)
        self._indexes = IndexFold(indexes, self._get) if indexes else None

    def __reduce__(self) -> Any:
        return ProfileFold, (self.declared, self._attributes)

    def _get(self, field: str) -> Get:
        return getter(field, self._attributes)

    def __call__(self, records: Events, context: FoldContext) -> Iterable[Effect]:
        """The operations of a key are commutative but for its history, which keeps the order of the records."""
        counted = [record for record in records if record.value]
        if len(counted) < len(records) and (nulls := sum(record.value is UNSET for record in records)):
            yield Count(NULLS, nulls)
        by_key = self._by_key(counted)
        layout = self._layout
        indexed: defaultdict[str, Numbers] = defaultdict(dict)
        for key, events in by_key.items():
            add: Numbers = {COUNT: len(events)}
            least: Numbers = {}
            most: Numbers = {}
            for add_numbers in self._adders:
                add_numbers(events, add, least, most)
            yield Merge(layout.state_key(NUMBERS, key), add, least, most, groups_of(self._split, (add, least, most)))
            if self._indexes:
                self._indexes.add(str(key), events, add, records[-1].stream_time, indexed)
            yield from self._ranked(key, events)
            yield from self._listed(key, events)
        yield from (IncrementScores(*scored) for scored in indexed.items())
        if self._slots:
            yield from self._slots.effects(counted, records[-1].stream_time, context)
        elif layout.windowed:
            yield from self._histories(by_key, records)
        if self._rules:
            yield from self._rules.effects(by_key, context)

    def _by_key(self, events: Events) -> Mapping[Any, Events]:
        if self.declared.everywhere:
            return {"": events} if events else {}
        by_key: defaultdict[Any, list[Record[Any, Any]]] = defaultdict(list)
        for event in events:
            by_key[event.key].append(event)
        return by_key

    def _ranked(self, key: Any, events: Events) -> Iterable[Effect]:
        layout, compact = self._layout, self.declared.packed
        for name, limit, score in self._rankings:
            if by := score(events):
                own, numbers = layout.values_key(name, key), layout.state_key(NUMBERS, key)
                yield IncrementScores(own, by, compact, Groups(limit, list(by)), numbers, name)

    def _listed(self, key: Any, events: Events) -> Iterable[Effect]:
        for measure, get, kept in self._lists:
            first = measure.kind == "first"
            members: dict[str, int] = {}
            for event in events if kept is None else filter(kept, events):
                if (value := get(event)) is not None:
                    text = msgspec.json.encode(value).decode()
                    order = LONG_MAX - event.offset if first else event.offset
                    members[f"{sortable(order)} {text}"] = -event.timestamp if first else event.timestamp
            if members:
                yield PushRecent(self._layout.values_key(measure.name, key), members, length(measure))

    def _histories(self, by_key: Mapping[Any, Events], records: Events) -> Iterable[Effect]:
        kept_ms, late = self.declared.kept_ms, 0
        for key, events in by_key.items():
            days: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
            for event in events if self._in_windows is None else filter(self._in_windows, events):
                day, time = divmod(event.timestamp, DAY_MS)
                if day < (event.stream_time - kept_ms) // DAY_MS:
                    late += 1
                else:
                    days[day].append((time, *(get(event) for get in self._columns)))
            if days:
                lines = {str(day): _lines(rows).decode() for day, rows in days.items()}
                yield AppendLines(EVENTS, str(key), lines, HISTORY_BYTES)
        if late:
            yield Count(LATE, late)
        before = (records[-1].stream_time - kept_ms) // DAY_MS * DAY_MS
        if before > 0:
            yield ExpireDays(EVENTS, before)


def getter(field: str, attributes: Mapping[str, str]) -> Get:
    """The getter of a field of a record, whose value has these attributes by field."""
    return attrgetter("timestamp" if field == TIMESTAMP else f"value.{attributes[field]}")
