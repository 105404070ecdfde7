"""The fold of rules: the values of a key after each of its events, and a record when a value crosses a line."""

import operator
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from streamstate.app import Derived, Effect, Emit, FoldContext, Record
from streamstate.keys import CODECS
from streamstate.profile.declaration import Declaration
from streamstate.profile.layout import EVENTS, HISTORY_BYTES, NUMBERS, RULES, Layout
from streamstate.profile.measure import TrailingWindow
from streamstate.profile.numbers import COUNT, Get, Numbers, is_plain, number_adder, numbers_of
from streamstate.profile.rules.crossings import Crossing, kept, plain, rules_topic
from streamstate.profile.rules.rule import Rule
from streamstate.profile.rules.sliding import Sliding
from streamstate.profile.windows.busy import rows
from streamstate.profile.windows.histories import WindowMeasure
from streamstate.profile.windows.parts import Row
from streamstate.state.operations import DAY_MS, Fields, HistoryDays, Put, Read, Value

Events = Sequence[Record[Any, Any]]
_time = itemgetter(0)


def derived(declared: Declaration) -> dict[str, Derived]:
    """The derived topic, for `App.emits`; none without a rule."""
    return {rules_topic(declared.name): Derived(CODECS[declared.key_type], Crossing)} if declared.rules else {}


class RuleReads:
    """The `Fold.reads` of the rules of `declared`."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._layout = Layout(declared)
        self._ever = any(rule.window is None for rule in declared.ruled)
        self._windowed = any(rule.window for rule in declared.ruled)

    def __reduce__(self) -> Any:
        return RuleReads, (self._declared,)

    def __call__(self, records: Events) -> Iterable[Read]:
        for key in dict.fromkeys(record.key for record in records):
            yield Value(self._layout.state_key(RULES, key))
            if self._ever:
                yield Fields(self._layout.state_key(NUMBERS, key))
            if self._windowed:
                yield HistoryDays(EVENTS, str(key))


class RuleFold:
    """The effects of events on the rules of `declared`.

    get: a field → its getter of a record.
    """

    def __init__(self, declared: Declaration, get: Callable[[str], Get]) -> None:
        self._declared = declared
        self._layout = Layout(declared)
        self._in_windows = self._layout.in_windows.compiled(get)
        self._columns = [get(field) for field in declared.windowed_fields]
        ever = [rule.measure for rule in declared.ruled if rule.window is None and not is_plain(rule.measure)]
        self._adders = [number_adder(measure, declared.types, get) for measure in dict.fromkeys(ever)]
        self._measures = {rule.name: WindowMeasure(rule.measure, declared) for rule in declared.ruled if rule.window}
        self._tests = {rule.name: rule.when.compiled(lambda _name: lambda value: value) for rule in declared.ruled}
        self._key, self._topic = CODECS[declared.key_type], rules_topic(declared.name)

    def effects(self, by_key: Mapping[Any, Events], context: FoldContext) -> Iterable[Effect]:
        """The records in the order of their causes, also kept in the state, and the states of the rules."""
        sent: list[tuple[Rule, Emit]] = []
        for key, events in by_key.items():
            state = f"{self._layout.state_key(RULES, key)}"
            at, rules = msgspec.json.decode(context.values[Value(state)] or "[0,{}]")
            values = _Values(self, key, context, at)
            for event in events:
                values.add(event)
                sent += self._crossings(event, values, rules)
            yield Put(state, msgspec.json.encode([values.at, dict(sorted(rules.items()))]).decode())
        sent.sort(key=lambda crossing: crossing[1].cause.offset)
        yield from (emit for _, emit in sent)
        yield from kept(sent)

    def _crossings(
        self, event: Record[Any, Any], values: "_Values", rules: dict[str, list[int]]
    ) -> Iterator[tuple[Rule, Emit]]:
        """The records of the rules that hold after `event`, and did not before; `rules`: [holds, sent at] by name."""
        for rule in self._declared.ruled:
            value, test = values.of(rule), self._tests[rule.name]
            holds = value is not None and test is not None and test(value)
            held, *sent = rules.get(rule.name, [0])
            if holds and not held and (not sent or values.at - sent[0] >= rule.cooldown_ms):
                sent = [values.at]
                crossing = Crossing(rule.name, plain(event.key), _number(rule, value), values.at)
                yield rule, Emit(self._topic, self._key.encode(event.key), msgspec.json.encode(crossing), event)
            if holds or sent:
                rules[rule.name] = [int(holds), *sent]
            else:
                rules.pop(rule.name, None)


class _Values:
    """The values of a key after each event of a batch. at: the greatest timestamp of the key's events."""

    def __init__(self, fold: RuleFold, key: Any, context: FoldContext, at: int) -> None:
        self.at = at
        self._fold = fold
        self._first = 0
        self._numbers: Numbers = {}
        self._sliding: dict[str, Sliding] = {}
        if fold._adders or any(rule.window is None for rule in fold._declared.ruled):
            self._numbers = dict(context.values[Fields(fold._layout.state_key(NUMBERS, key))])
        if fold._measures:
            _, days, _ = context.values[HistoryDays(EVENTS, str(key))]
            self._sizes = Counter({day: len(lines.encode()) for day, lines in days.items()})
            held = sorted((row for day in sorted(days) for row in rows(day, days[day])), key=_time)
            for rule in fold._declared.ruled:
                if rule.window:
                    within = held[bisect_left(held, at - rule.window.ms, key=_time) :]
                    self._sliding[rule.name] = Sliding(fold._measures[rule.name], within)

    def add(self, event: Record[Any, Any]) -> None:
        fold = self._fold
        self.at = max(self.at, event.timestamp)
        self._numbers[COUNT] = self._numbers.get(COUNT, 0) + 1
        add, least, most = Numbers(), Numbers(), Numbers()
        for add_numbers in fold._adders:
            add_numbers([event], add, least, most)
        for merge, fields in ((operator.add, add), (min, least), (max, most)):
            for name, of in fields.items():
                self._numbers[name] = merge(self._numbers[name], of) if name in self._numbers else of
        if self._sliding:
            self._first = max(self._first, (event.stream_time - fold._declared.kept_ms) // DAY_MS * DAY_MS)
            if fold._in_windows is None or fold._in_windows(event):
                row = [event.timestamp, *(get(event) for get in fold._columns)]
                if not self._fits(row):
                    return
                for rule in fold._declared.ruled:
                    if rule.window and event.timestamp >= self._begin(rule.window):
                        self._sliding[rule.name].add(row)

    def _fits(self, row: Row) -> bool:
        """Whether the history takes the event."""
        day, time = divmod(row[0], DAY_MS)
        size = len(msgspec.json.encode([time, *row[1:]])) + 1
        fits = self._sizes[day] + size <= HISTORY_BYTES
        self._sizes[day] += size if fits else 0
        return fits

    def _begin(self, window: TrailingWindow) -> int:
        return max(self._first, self.at - window.ms)

    def of(self, rule: Rule) -> Any:
        """The value of a rule's measure; None without an event."""
        if rule.window:
            return self._sliding[rule.name].value(self._begin(rule.window))
        if is_plain(rule.measure):
            return self._numbers[COUNT]
        return numbers_of([rule.measure], self._numbers)[rule.measure.name]


def _number(rule: Rule, value: int) -> int | float:
    return value / 10**rule.of.scale if rule.of.scale else value
