"""The recount of every declared profile: keep the events, filter, sort, count. Shares no code with the fold."""

import json
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from typing import Any

import msgspec
from confluent_kafka import Message

from streamstate.errors import BadRecord
from streamstate.keys import CODECS
from streamstate.profile.declaration import Declaration
from streamstate.profile.measure import EVER, MeasureWords
from streamstate.verify import rankings
from streamstate.verify.recount import Recount, Recounted, Stored, days, unequal, wrong_family

DAY_MS = 86_400_000
_MOST = 2**63 - 1
_LONGEST = 1_024
_UNUSABLE = (ValueError, TypeError, InvalidOperation, OverflowError, RecursionError, BadRecord)

Event = Mapping[str, Any]
"""The fields of an event, with `timestamp` and `offset` of its record."""


class ProfileRecount(Recount):
    """The keys of a partition."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._days: defaultdict[str, dict[int, list[Any]]] = defaultdict(dict)
        self._counted: dict[tuple[str, str], tuple[Mapping[str, Stored], int]] = {}
        self._first_day = self._late = 0
        fields = declared.fields.items()
        self._kinds = {name: words if isinstance(words, str) else words.type for name, words in fields}
        self._paths = {name: name if isinstance(words, str) else words.member for name, words in fields}

    def add(self, message: Message, stream_time: int) -> bool:
        try:
            key = CODECS[self._declared.key].decode(message.key())
            event = _event(message.value(), self._kinds, self._paths)
        except _UNUSABLE:
            return False
        event |= {"timestamp": message.timestamp()[1], "offset": message.offset()}
        name = "" if self._declared.everywhere else str(key)
        self._events[name].append(event)
        if self._declared.windows:
            self._first_day = max(0, stream_time - self._declared.kept_ms) // DAY_MS
            self._keep(name, event)
        return True

    def _keep(self, key: str, event: Event) -> None:
        """Add the event to its day, if a measure with a window counts it."""
        windowed = [words for words in self._declared.measures.values() if words.over != EVER and words.over != [EVER]]
        if not any(_holds(words.where, event) for words in windowed):
            return
        day, time = divmod(event["timestamp"], DAY_MS)
        if day < self._first_day:
            self._late += 1
            self.counts = {"late_records": self._late}
            return
        named = {field for words in windowed for field in _fields(words)}
        row = [time, *(self._stored(name, event[name]) for name in sorted(named & self._kinds.keys()))]
        self._days[key].setdefault(day, []).append(row)

    def _stored(self, field: str, value: Any) -> Any:
        """A value as in the state: decimals are whole numbers there."""
        return int(value * 10 ** int(self._kinds[field][8])) if isinstance(value, Decimal) else value

    def _unexpired(self, key: str) -> dict[int, list[Any]]:
        return {day: rows for day, rows in self._days.get(key, {}).items() if day >= self._first_day}

    def expected_keys(self) -> Iterable[str]:
        if any(map(self._unexpired, self._days)):
            yield "events"
        for key, events in self._events.items():
            yield self._name("numbers", key)
            for name, words in self._lists.items():
                if _ranking(words):
                    yield from self._rankings(name, key)
                elif self._list(name, events):
                    yield self._name(f"{name}.values", key)
            if self._unexpired(key):
                yield f"events:{key}"

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        kind, _, of = key.partition(":")
        if key == "events":
            return self._wrong_family(stored)
        events, (name, dot, _) = self._events.get(of, []), kind.partition(".")
        if kind == "events" and of in self._days:
            return self._wrong_days(self._unexpired(of), stored)
        if kind == "numbers" and events:
            return unequal(self._numbers(events), stored)
        if dot and name in self._lists and events:
            if _ranking(self._lists[name]):
                return unequal(self._rankings(name, of).get(key), stored)
            return self._wrong_list(name, events, stored)
        return unequal(None, stored)

    def _name(self, kind: str, key: str) -> str:
        return kind if self._declared.everywhere else f"{kind}:{key}"

    def _numbers(self, events: Sequence[Event]) -> dict[bytes, bytes]:
        numbers = {"#": len(events)}
        for name, words in self._declared.measures.items():
            plain = words.count == "all" and not (words.by or words.where)
            if plain or EVER not in words.over or not _numeric(words):
                continue
            for event in _counted(words, events):
                by = f":{self._text(words.by, event[words.by])}" if words.by else ""
                value = 1 if words.count else self._stored(_subject(words), event[_subject(words)])
                held = numbers.get(f"{name}{by}", None if words.least or words.first or words.most or words.last else 0)
                pick = min if words.least or words.first else max if words.most or words.last else operator.add
                numbers[f"{name}{by}"] = value if held is None else pick(held, value)
                if words.mean:
                    numbers[f"#{name}{by}"] = numbers.get(f"#{name}{by}", 0) + 1
        return {name.encode(): b"%d" % number for name, number in numbers.items()}

    def _text(self, field: str, value: Any) -> str:
        if isinstance(value, Decimal):
            value = self._stored(field, value) / 10 ** int(self._kinds[field][8])
        # Exponents as in an answer: 1e-9, in Python 1e-09.
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    @cached_property
    def _lists(self) -> dict[str, MeasureWords]:
        """The measures with a ranking or list of their own; of measures of the same values, the first by name."""
        found: dict[str, MeasureWords] = {}
        for name, words in sorted(self._declared.measures.items()):
            if EVER in words.over and not _numeric(words):
                ranking = _ranking(words)
                if ranking is None or all(ranking != _ranking(each) for each in found.values()):
                    found[name] = words
        return found

    def _rankings(self, name: str, key: str) -> Mapping[str, Stored]:
        """The keys of a ranking; a compact one has several, each of which is asked for."""
        events = self._events[key]
        found, counted = self._counted.get((name, key), ({}, 0))
        if counted < len(events):
            words, field, numbers = self._lists[name], _subject(self._lists[name]), Counter[str]()
            for event in _counted(words, events):
                weight = event[words.total] if words.total else 1
                if weight is not None:
                    numbers[rankings.member_of(self._stored(field, event[field]))] += self._stored(words.total, weight)
            found = rankings.stored(numbers, f"{name}.values", self._name("", key), compact=self._declared.compact)
            self._counted[name, key] = found, len(events)
        return found

    def _list(self, name: str, events: Sequence[Event]) -> Mapping[Any, float]:
        """The times by offset and value."""
        words, field = self._lists[name], _subject(self._lists[name])
        counted = sorted(_counted(words, events), key=lambda event: (event["timestamp"], event["offset"]))
        kept = counted[:1] if words.first else counted[-(words.recent or 1) :]
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


def _event(value: bytes | None, kinds: Mapping[str, str], paths: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a value. Raises an error of `_UNUSABLE`."""
    content = json.loads((value or b"").decode(), parse_constant=int, parse_float=Decimal)
    if not isinstance(content, dict):
        raise TypeError
    return {name: _value(_member(content, paths[name]), kind) for name, kind in kinds.items()}


def _member(content: Any, path: str) -> Any:
    """The member at `path`. Raises TypeError where a member around it is no object."""
    for name in path.split("."):
        if content is None:
            return None
        if not isinstance(content, dict):
            raise TypeError
        content = content.get(name)
    return content


def _value(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("decimal"):
        if type(value) not in (int, Decimal, str):
            raise TypeError
        value, scale = Decimal(value), int(kind[8])
        rounded = round(value, scale)
        if rounded != value or not -_MOST <= int(rounded.scaleb(scale)) + 1 <= 2**63:
            raise ValueError
        return value
    types: Mapping[str, type] = {"int": int, "str": str, "bool": bool}
    if type(value) is not types[kind]:
        raise TypeError
    if isinstance(value, str):
        # A lone surrogate has no UTF-8.
        value.encode()
    if (isinstance(value, str) and len(value) > _LONGEST) or (
        isinstance(value, int) and not -_MOST <= value + 1 <= 2**63
    ):
        raise ValueError
    return value


def _subject(words: MeasureWords) -> str:
    """The measured field, empty for all events."""
    named = (
        words.of,
        "" if words.count == "all" else words.count,
        "" if words.top else words.total,
        words.least,
        words.most,
    )
    return next((name for name in (*named, words.mean, words.first, words.last, words.distinct) if name), "")


def _ranking(words: MeasureWords) -> tuple[Any, ...] | None:
    """A ranking's field, weight and condition; None for another measure."""
    return (_subject(words), words.total, words.where) if words.top or words.distinct else None


def _numeric(words: MeasureWords) -> bool:
    ranked = words.top or words.distinct or words.recent or words.sessions
    return not ranked and (not (words.first or words.last) or _subject(words) == "timestamp")


def _fields(words: MeasureWords) -> set[str]:
    conditions: list[Any] = [words.where]
    found = {_subject(words), words.by, words.total}
    while conditions:
        for name, inner in conditions.pop().items():
            if name in ("all", "any"):
                conditions += inner
            else:
                found.add(name)
    return found


def _counted(words: MeasureWords, events: Iterable[Event]) -> list[Event]:
    """The events that have the measure's fields, and fulfil its condition."""
    needed = [name for name in (_subject(words), words.by) if name]
    return [event for event in events if all(event[name] is not None for name in needed) and _holds(words.where, event)]


def _holds(where: Mapping[str, Any], event: Event) -> bool:
    joins = {"all": all, "any": any}
    return all(
        joins[name](_holds(each, event) for each in inner)
        if name in joins
        else all(_compared(event[name], word, literal) for word, literal in inner.items())
        for name, inner in where.items()
    )


def _compared(value: Any, word: str, literal: Any) -> bool:
    if value is None:
        return False
    if isinstance(value, Decimal):
        literal = [Decimal(str(each)) for each in literal] if word == "in" else Decimal(str(literal))
    return value in literal if word == "in" else bool(getattr(operator, word)(value, literal))


def recounted(declared: Declaration) -> Recounted:
    """The recount of a declaration's state."""
    return Recounted(declared.name, (declared.topic,), partial(ProfileRecount, declared))
