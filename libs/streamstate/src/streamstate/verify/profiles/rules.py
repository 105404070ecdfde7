"""The states and the crossings of rules counted again: after each event, from the key's events within the window."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import pairwise
from typing import Any

from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import EVER, UNITS, MeasureWords
from streamstate.verify.profiles.words import Event, counted, holds, subject
from streamstate.verify.recount import Stored, unequal, wrong_family

DAY_MS = 86_400_000
CROSSINGS = "crossings"
KEPT = 1_000_000
"""The records of a partition whose crossings are kept."""


def _ms(text: str) -> int:
    return int(text[:-1]) * UNITS[text[-1]] if text else 0


class RuleRecount:
    """The rules of the keys of a partition.

    kept_ms: how long a history keeps an event. offset: of the last usable record.
    """

    def __init__(self, declared: Declaration, kept_ms: int) -> None:
        self._measures = declared.measures
        self._rules = declared.rules
        self._kept_ms = kept_ms
        self._over = {name: self._window(name) for name in self._rules}
        self._longest = max((_ms(over) for over in self._over.values() if over != EVER), default=0)
        self._at: Counter[str] = Counter()
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._ever: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        self._states: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        self._crossings: dict[str, dict[int, Any]] = {name: {} for name in self._rules}
        self.offset = 0

    def _window(self, rule: str) -> str:
        words = self._rules[rule]
        (measure,) = words.when
        over = self._measures[measure].over
        return words.over or (over if isinstance(over, str) else over[0])

    def add(self, key: str, event: Event, stream_time: int, *, windowed: bool) -> None:
        """Count an event. windowed: whether a measure with a window counts the event."""
        at = self._at[key] = max(self._at[key], event["timestamp"])
        first = (stream_time - self._kept_ms) // DAY_MS * DAY_MS
        within = [*self._events[key], *([event] if windowed else [])]
        begin = max(first, at - self._longest)
        self._events[key] = [each for each in within if each["timestamp"] >= begin]
        for name in self._rules:
            self._advance(name, key, event, at)

    def _advance(self, name: str, key: str, event: Event, at: int) -> None:
        words, over = self._rules[name], self._over[name]
        (measure,) = words.when
        of = self._measures[measure]
        if over == EVER:
            events = self._ever[name, key]
            events += counted(of, [event])
        else:
            events = [each for each in self._events[key] if each["timestamp"] >= at - _ms(over)]
        value = _value(of, events)
        true = holds(words.when, {measure: value})
        held, *sent = self._states[key].get(name, [0])
        crosses = true and not held and (not sent or at - sent[0] >= _ms(words.cooldown))
        if crosses:
            sent = [at]
            self._crossings[name][event["offset"]] = {"rule": name, "key": key, "value": _plain(value), "at": at}
        self._states[key][name] = [int(true), *sent]

    def keys(self) -> Iterable[str]:
        """The keys of the kept crossings."""
        kept = [name for name in self._rules if self._kept(name)]
        return [*(f"{CROSSINGS}:{name}" for name in kept), *([CROSSINGS] if kept else [])]

    def wrong_crossings(self, rule: str, stored: Stored | None) -> str | None:
        """The difference of the kept crossings of `rule`, of the family without one. Expired entries may be there."""
        if not rule:
            needed = {name.encode(): min(kept) for name in self._rules if (kept := self._kept(name))}
            return wrong_family(needed, {name.encode() for name in self._rules}, stored)
        if not isinstance(stored, dict):
            return unequal(self._kept(rule) or None, stored)
        found = {int(offset): json.loads(entry.partition(b" ")[2]) for entry, offset in stored.items()}
        texts = {offset: {**each, "key": str(each["key"])} for offset, each in found.items()}
        return unequal(self._kept(rule), {offset: each for offset, each in texts.items() if self._is_kept(offset)})

    def _kept(self, rule: str) -> dict[int, Any]:
        return {offset: each for offset, each in self._crossings.get(rule, {}).items() if self._is_kept(offset)}

    def _is_kept(self, offset: int) -> bool:
        return offset >= self.offset - KEPT

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        """The difference of the state of the rules of `key`."""
        rules = {name: state for name, state in self._states[key].items() if state != [0]}
        found = json.loads(stored) if isinstance(stored, bytes) else stored
        return unequal([self._at[key], rules], found)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _value(words: MeasureWords, events: list[Event]) -> Any:
    """The value of a measure over `events`; None without a number."""
    field, found = subject(words), counted(words, events)
    if words.sessions:
        times = sorted(event["timestamp"] for event in found)
        pauses = [later - time for time, later in pairwise(times)]
        return bool(times) + sum(pause > _ms(words.sessions) for pause in pauses)
    if words.count:
        return len(found)
    values = [event[field] for event in found]
    if words.distinct:
        return len(set(values))
    if words.total:
        return sum(values, Decimal(0) if values and isinstance(values[0], Decimal) else 0)
    pick: Callable[..., Any] = min if words.least else max
    return pick(values) if values else None
