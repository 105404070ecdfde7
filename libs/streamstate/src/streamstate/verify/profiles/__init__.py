"""The recount of every declared profile: keep the events, filter, sort, count. Shares no code with the fold."""

import json
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

import msgspec
from confluent_kafka import Message

from streamstate.keys import CODECS
from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import EVER, MeasureWords
from streamstate.verify import rankings
from streamstate.verify.profiles.indexes import INDEX, IndexRecount
from streamstate.verify.profiles.rules import CROSSINGS, RuleRecount
from streamstate.verify.profiles.words import (
    UNUSABLE,
    Event,
    counted,
    event_of,
    fields,
    first_by_name,
    holds,
    numeric,
    ranking,
    subject,
)
from streamstate.verify.recount import Recount, Recounted, Stored, days, unequal, wrong_family

DAY_MS, SLOT_MS = 86_400_000, 300_000
SLOTS = "slots"
_MOST = 2**63 - 1


class ProfileRecount(Recount):
    """The keys of a partition."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._days: defaultdict[str, dict[int, list[Any]]] = defaultdict(dict)
        self._counted: dict[tuple[str, str], tuple[Mapping[str, Stored], int]] = {}
        self._slots: defaultdict[int, list[Event]] = defaultdict(list)
        self._first_day = self._time = 0
        self.counts: Counter[str] = Counter()
        self._read = False
        self._indexes = IndexRecount(declared)
        fields = declared.fields.items()
        self._kinds = {name: words if isinstance(words, str) else words.type for name, words in fields}
        self._rules = RuleRecount(declared, declared.kept_ms if declared.windows else 0) if declared.rules else None
        self._paths = {name: name if isinstance(words, str) else words.member for name, words in fields}

    def read(self, message: Message) -> tuple[Any, dict[str, Any] | None] | None:
        """Key and event of a record, no event where `where` leaves the record out; None for an unusable record."""
        try:
            key = CODECS[self._declared.key_type].decode(message.key())
            return key, event_of(message.value(), self._kinds, self._paths, self._declared.where)
        except UNUSABLE:
            return None

    def add(self, message: Message, stream_time: int) -> bool:
        if (read := self.read(message)) is None:
            return False
        key, event = read
        self._read = True
        self._advance(message, stream_time)
        if self._declared.windows:
            self._time = stream_time
            self._first_day = max(0, stream_time - self._declared.kept_ms) // DAY_MS
        if event is None:
            self.counts["null_values"] += message.value() is None
            return True
        event |= {"timestamp": message.timestamp()[1], "offset": message.offset()}
        name = "" if self._declared.everywhere else str(key)
        self._events[name].append(event)
        if self._rules:
            self._rules.add(name, event, stream_time, windowed=self._in_windows(event))
        self._indexes.add(name, event, stream_time)
        if self._declared.windows:
            self._keep(name, event)
        return True

    def add_erased(self, message: Message, stream_time: int) -> None:
        self._advance(message, stream_time)

    def _advance(self, message: Message, stream_time: int) -> None:
        self._indexes.time = stream_time
        if self._rules:
            self._rules.offset = message.offset() or 0

    def _keep(self, key: str, event: Event) -> None:
        """Add the event to its day, if a measure with a window counts it."""
        if not self._in_windows(event):
            return
        day, time = divmod(event["timestamp"], DAY_MS)
        if day < self._first_day:
            self.counts["late_records"] += 1
            return
        if self._declared.everywhere:
            self._slots[day].append(event)
            return
        named = {field for words in self._windowed.values() for field in fields(words)}
        row = [time, *(self._stored(name, event[name]) for name in sorted(named & self._kinds.keys()))]
        self._days[key].setdefault(day, []).append(row)

    def _in_windows(self, event: Event) -> bool:
        """Whether a measure with a window counts the event."""
        return any(holds(words.where, event) for words in self._windowed.values())

    def _stored(self, field: str, value: Any) -> Any:
        """A value as in the state: decimals are whole numbers there."""
        return int(value * 10 ** int(self._kinds[field][8])) if isinstance(value, Decimal) else value

    def _unexpired(self, key: str) -> dict[int, list[Any]]:
        return {day: rows for day, rows in self._days.get(key, {}).items() if day >= self._first_day}

    def expected_keys(self) -> Iterable[str]:
        yield from self._indexes.keys(self._values())
        if self._declared.everywhere and self._declared.windows and self._read:
            yield SLOTS
            yield from (key for day in self._slots if self._slots_of(key := f"{SLOTS}:{day}"))
        if any(map(self._unexpired, self._days)):
            yield "events"
        yield from self._rules.keys() if self._rules else ()
        for key, events in self._events.items():
            yield self._name("numbers", key)
            if self._rules:
                yield f"rules:{key}"
            for name, words in self._lists.items():
                if ranking(words):
                    yield from self._rankings(name, key)
                elif self._list(name, events):
                    yield self._name(f"{name}.values", key)
            if self._unexpired(key):
                yield f"events:{key}"

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        kind, _, of = key.partition(":")
        if kind == INDEX:
            return unequal(self._indexes.keys(self._values()).get(key), stored)
        if kind == CROSSINGS and self._rules:
            return self._rules.wrong_crossings(of, stored)
        if kind == SLOTS:
            return unequal(self._slots_of(key) or None, stored)
        if key == "events":
            return self._wrong_family(stored)
        events, (name, dot, _) = self._events.get(of, []), kind.partition(".")
        if kind == "events" and of in self._days:
            return self._wrong_days(self._unexpired(of), stored)
        if kind == "rules" and self._rules and events:
            return self._rules.wrong(of, stored)
        if kind == "numbers" and events:
            return unequal(self._numbers(events), stored)
        if dot and name in self._lists and events:
            if ranking(self._lists[name]):
                return unequal(self._rankings(name, of).get(key), stored)
            return self._wrong_list(name, events, stored)
        return unequal(None, stored)

    def _values(self) -> Iterator[tuple[str, Mapping[str, int]]]:
        """The numbers without a window of all keys, by measure."""
        measures = self._indexes.ever
        for key, events in self._events.items():
            yield key, dict.fromkeys(measures, 0) | self._added(measures, events)

    def _name(self, kind: str, key: str) -> str:
        return kind if self._declared.everywhere else f"{kind}:{key}"

    @cached_property
    def _windowed(self) -> Mapping[str, MeasureWords]:
        measures = self._declared.measures.items()
        return {name: words for name, words in measures if words.over != EVER and words.over != [EVER]}

    def _slots_of(self, key: str) -> dict[bytes, bytes]:
        """The numbers by slot of a day, or the stream time."""
        _, _, day = key.partition(":")
        if not day:
            return {b"time": b"%d" % self._time} if self._declared.windows and self._read else {}
        if not day.isdigit() or int(day) < self._first_day:
            return {}
        by_slot: defaultdict[int, list[Event]] = defaultdict(list)
        for event in self._slots.get(int(day), ()):
            by_slot[event["timestamp"] // SLOT_MS].append(event)
        return {
            f"{slot}:{field}".encode(): b"%d" % number
            for slot, events in by_slot.items()
            for field, number in self._of_slot(events).items()
        }

    def _of_slot(self, events: Sequence[Event]) -> dict[str, int]:
        numbers = self._added(self._windowed, events)
        for name, words in first_by_name(self._windowed).items():
            if ranking(words):
                scores = self._scores(words, events).items()
                numbers |= {f"{name}.values:{member}": score for member, score in scores}
                numbers |= {f"{name}.values#": len(scores)} if scores else {}
        return numbers

    def _numbers(self, events: Sequence[Event]) -> dict[bytes, bytes]:
        measures = {
            name: words
            for name, words in self._declared.measures.items()
            if EVER in words.over and not (words.count == "all" and not (words.by or words.where))
        }
        numbers = {"#": len(events), **self._added(measures, events)}
        return {name.encode(): b"%d" % number for name, number in numbers.items()}

    def _added(self, measures: Mapping[str, MeasureWords], events: Sequence[Event]) -> dict[str, int]:
        """The fields of measures that are numbers."""
        numbers: dict[str, Any] = {}
        for name, words in measures.items():
            if not numeric(words):
                continue
            for event in counted(words, events):
                by = f":{self._text(words.by, event[words.by])}" if words.by else ""
                value = 1 if words.count else self._stored(subject(words), event[subject(words)])
                if by and f"{name}{by}" not in numbers:
                    for counted_by in (name, f"#{name}") if words.mean else (name,):
                        numbers[f"{counted_by}#"] = numbers.get(f"{counted_by}#", 0) + 1
                held = numbers.get(f"{name}{by}", None if words.least or words.first or words.most or words.last else 0)
                pick = min if words.least or words.first else max if words.most or words.last else operator.add
                numbers[f"{name}{by}"] = value if held is None else pick(held, value)
                if words.mean:
                    numbers[f"#{name}{by}"] = numbers.get(f"#{name}{by}", 0) + 1
        return numbers

    def _text(self, field: str, value: Any) -> str:
        if isinstance(value, Decimal):
            value = self._stored(field, value) / 10 ** int(self._kinds[field][8])
        # Exponents as in an answer: 1e-9, in Python 1e-09.
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    @cached_property
    def _lists(self) -> dict[str, MeasureWords]:
        """The measures with a ranking or list of their own."""
        measures = {name: words for name, words in self._declared.measures.items() if EVER in words.over}
        return first_by_name({name: words for name, words in measures.items() if not numeric(words)})

    def _rankings(self, name: str, key: str) -> Mapping[str, Stored]:
        """The keys of a ranking; a compact one has several, each of which is asked for."""
        events = self._events[key]
        found, number = self._counted.get((name, key), ({}, 0))
        if number < len(events):
            numbers = self._scores(self._lists[name], events)
            found = rankings.stored(numbers, f"{name}.values", self._name("", key), compact=self._declared.packed)
            self._counted[name, key] = found, len(events)
        return found

    def _scores(self, words: MeasureWords, events: Sequence[Event]) -> Counter[str]:
        """The scores of the members of a ranking."""
        field, numbers = subject(words), Counter[str]()
        for event in counted(words, events):
            weight = event[words.total] if words.total else 1
            if weight is not None:
                numbers[rankings.member_of(self._stored(field, event[field]))] += self._stored(words.total, weight)
        return numbers

    def _list(self, name: str, events: Sequence[Event]) -> Mapping[Any, float]:
        """The times by offset and value."""
        words, field = self._lists[name], subject(self._lists[name])
        in_order = sorted(counted(words, events), key=lambda event: (event["timestamp"], event["offset"]))
        kept = in_order[:1] if words.first else in_order[-(words.recent or 1) :]
        return {(e["offset"], json.dumps(self._stored(field, e[field]))): e["timestamp"] for e in kept}

    def _wrong_list(self, name: str, events: Sequence[Event], stored: Stored | None) -> str | None:
        expected, words = self._list(name, events), self._lists[name]
        if not isinstance(stored, dict) or not expected:
            return unequal(expected or None, stored)
        found = {}
        for member, score in stored.items():
            order, _, text = member.decode().partition(" ")
            offset = _MOST - int(order[1:]) if words.first else int(order[1:])
            found[offset, json.dumps(json.loads(text))] = abs(int(score))
        return unequal(expected, found)

    def _wrong_days(self, expected: dict[int, list[Any]], stored: Stored | None) -> str | None:
        """Expired days may be there or not."""
        if not isinstance(stored, dict):
            return unequal(expected or None, stored)
        found = {day: lines.decode().split("\n")[:-1] for day, lines in days(stored).items() if day >= self._first_day}
        return unequal(expected, {day: list(map(json.loads, lines)) for day, lines in found.items()})

    def _wrong_family(self, stored: Stored | None) -> str | None:
        needed = {key.encode(): min(days) * DAY_MS for key in self._days if (days := self._unexpired(key))}
        return wrong_family(needed, set(map(str.encode, self._days)), stored)


def recounted(declared: Declaration) -> Recounted:
    """The recount of a declaration's state, over a topic with the profile's keys."""
    return Recounted(declared.name, (declared.topic,), partial(ProfileRecount, declared))
