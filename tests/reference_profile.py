"""The answer of a profile by brute force: keep the events, filter, sort, count. Shares nothing with the library."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

Event = Mapping[str, Any]
"""The members of an event, with `timestamp` and `offset` of its record."""

SLOT_MS = 300_000
LENGTHS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def answer(declared: Mapping[str, Any], key: Any, events: Sequence[Event], at: int) -> dict[str, Any] | None:
    """What is answered for `key` at `at`; `events` are the key's, `declared` is the YAML."""
    if not events:
        return None
    answered: dict[str, Any] = {"key": key}
    other: dict[str, dict[str, Any]] = {}
    spans: dict[str, dict[str, int]] = {}
    for name, words in declared["measures"].items():
        over = words.get("over", "ever")
        found = {}
        for label in [over] if isinstance(over, str) else over:
            counted = list(events)
            if label != "ever":
                start, end = at - int(label[:-1]) * LENGTHS[label[-1]], at
                if "<key>" not in declared["path"]:
                    start, end = start // SLOT_MS * SLOT_MS, end // SLOT_MS * SLOT_MS + SLOT_MS - 1
                spans[label] = {"from": start, "to": end}
                counted = [event for event in events if start <= event["timestamp"] <= end]
            counted = [event for event in counted if holds(words.get("where", {}), event)]
            kept, further = bounded(words, counted, label)
            found[label] = measure(words, kept)
            if further:
                other.setdefault(name, {})[label] = number_of(words, further)
        answered[name] = found[over] if isinstance(over, str) else found if len(over) > 1 else found[over[0]]
    answered |= {"windows": spans} if spans else {}
    return answered | {"other": other} if other else answered


def bounded(words: Mapping[str, Any], events: list[Event], label: str) -> tuple[list[Event], list[Event]]:
    """The events with values that have numbers of their own, and the others: the first values have."""
    split = words.get("by") or (words.get("of" if "top" in words else "distinct") if label == "ever" else None)
    if not split or "recent" in words:
        return events, []
    needed = {split, *({words["by"], field(words)} if "by" in words else {words.get("total", split)})} - {"timestamp"}
    present = [event for event in events if all(event.get(name) is not None for name in needed)]
    if label != "ever":
        present.sort(key=lambda event: (event["timestamp"], text(event[split])))
    first = [*dict.fromkeys(event[split] for event in present)][: words.get("values")]
    return [event for event in present if event[split] in first], [e for e in present if e[split] not in first]


def number_of(words: Mapping[str, Any], events: list[Event]) -> Any:
    if "by" in words:
        return value(words, events)
    return number(sum(event[words["total"]] if "total" in words else 1 for event in events))


def text(group: Any) -> str:
    return group if isinstance(group, str) else str(group).lower()


def measure(words: Mapping[str, Any], events: Iterable[Event]) -> Any:
    if not (by := words.get("by")):
        return value(words, list(events))
    present = [event for event in events if event.get(by) is not None and event.get(field(words), 0) is not None]
    groups = {event[by] for event in present}
    return {text(group): value(words, [event for event in present if event[by] == group]) for group in groups}


def field(words: Mapping[str, Any]) -> str:
    for kind in ("of", "total", "least", "most", "mean", "first", "last", "distinct", "count"):
        if words.get(kind) not in (None, "all"):
            return str(words[kind])
    return "timestamp"


def value(words: Mapping[str, Any], events: list[Event]) -> Any:
    name = field(words)
    present = sorted(
        (event for event in events if event.get(name) is not None),
        key=lambda event: (event["timestamp"], event["offset"]),
    )
    values = [event[name] for event in present]
    if "top" in words:
        return top(words, present)
    if "recent" in words:
        newest = present[::-1][: words["recent"]]
        return [{"value": number(event[name]), "timestamp": event["timestamp"]} for event in newest]
    return summary(words, values)


def top(words: Mapping[str, Any], events: list[Event]) -> list[Any]:
    weight = words.get("total")
    numbers: dict[Any, Any] = {}
    for event in events:
        if weight is None or event.get(weight) is not None:
            of = event[words["of"]]
            numbers[of] = numbers.get(of, 0) + (1 if weight is None else event[weight])
    ranked = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))[: words["top"]]
    return [{"value": number(of), "total" if weight else "count": number(total)} for of, total in ranked]


def summary(words: Mapping[str, Any], values: list[Any]) -> Any:
    if "sessions" in words:
        gap = int(words["sessions"][:-1]) * LENGTHS[words["sessions"][-1]]
        return sum(not index or time - values[index - 1] > gap for index, time in enumerate(values))
    if "distinct" in words:
        return len(set(values))
    if "count" in words:
        return len(values)
    if "total" in words:
        return number(sum(values))
    if not values:
        return None
    if "mean" in words:
        return float(Fraction(sum(values)) / len(values))
    picked = {"least": min(values), "most": max(values), "first": values[0], "last": values[-1]}
    return number(next(of for kind, of in picked.items() if kind in words))


def number(found: Any) -> Any:
    return float(found) if isinstance(found, Decimal) else found


def holds(where: Mapping[str, Any], event: Event) -> bool:
    return all(
        any(holds(each, event) for each in inner)
        if name == "any"
        else all(holds(each, event) for each in inner)
        if name == "all"
        else all(compared(event.get(name), word, literal) for word, literal in inner.items())
        for name, inner in where.items()
    )


def compared(found: Any, word: str, literal: Any) -> bool:
    if found is None:
        return False
    if word == "in":
        return found in literal
    return bool(getattr(operator, word)(found, literal))
