"""The states and the crossings of rules counted again: after each event, from the key's events within the window."""

import json
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from operator import itemgetter
from typing import Any

from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import EVER, UNITS, MeasureWords
from streamstate.verify.profiles.words import Event, counted, holds, subject
from streamstate.verify.recount import Stored, unequal, wrong_family

DAY_MS = 86_400_000
CROSSINGS = "crossings"
KEPT = 1_000_000
"""The records of a partition whose crossings are kept."""

_ALL = -1
"""Kafka's least timestamp."""


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
        self._at: Counter[str] = Counter()
        self._counted: dict[tuple[str, str], _Counted] = {}
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
        for name in self._rules:
            self._advance(name, key, event, at, first, windowed=windowed)

    def _advance(self, name: str, key: str, event: Event, at: int, first: int, *, windowed: bool) -> None:
        words = self._rules[name]
        (measure,) = words.when
        of = self._measures[measure]
        within = self._counted.setdefault((name, key), _Counted(of))
        ever = self._over[name] == EVER
        begin = _ALL if ever else max(first, at - _ms(self._over[name]))
        if (windowed or ever) and event["timestamp"] >= begin:
            within.add(counted(of, [event]))
        within.cut(begin)
        value = within.value
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


class _Counted:
    """The times and the values of the events that a measure counts, in the order of their times."""

    def __init__(self, words: MeasureWords) -> None:
        self._words = words
        self._entries: list[tuple[int, Any]] = []
        self._numbers: Counter[Any] = Counter()
        self._ordered: list[Any] = []
        self._total: Any = 0

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            value = event[subject(self._words) or "timestamp"]
            insort(self._entries, (event["timestamp"], value), key=itemgetter(0))
            self._numbers[value] += 1
            if self._words.total:
                self._total += value
            elif self._words.least or self._words.most:
                insort(self._ordered, value)

    def cut(self, begin: int) -> None:
        """Leave out the events before `begin`."""
        end = bisect_left(self._entries, begin, key=itemgetter(0))
        for _, value in self._entries[:end]:
            self._numbers[value] -= 1
            if not self._numbers[value]:
                del self._numbers[value]
            if self._words.total:
                self._total -= value
            elif self._words.least or self._words.most:
                del self._ordered[bisect_left(self._ordered, value)]
        del self._entries[:end]

    @property
    def value(self) -> Any:
        """The value of the measure; None without a number."""
        if self._words.sessions:
            pauses = [later - time for (time, _), (later, _) in pairwise(self._entries)]
            return bool(self._entries) + sum(pause > _ms(self._words.sessions) for pause in pauses)
        if self._words.count:
            return len(self._entries)
        if self._words.distinct:
            return len(self._numbers)
        if self._words.total:
            return self._total
        return self._ordered[0 if self._words.least else -1] if self._ordered else None
