"""The numbers of measures: added up from events, merged, and taken from the fields of the state."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from streamstate.profile.fields import TIMESTAMP, FieldType
from streamstate.profile.measure import SPLIT, Measure
from streamstate.state.operations import Groups

COUNT = "#"
"""The field of the numbers with the count of all events."""

Get = Callable[[Any], Any]
Numbers = dict[str, int]
Types = Mapping[str, FieldType]

AddNumbers = Callable[[Iterable[Any], Numbers, Numbers, Numbers], None]
"""Adds the numbers of events to the fields of a measure, in the sums, the least or the most."""


def is_number(measure: Measure) -> bool:
    """Whether the measure is kept as numbers, such as the first and last timestamp."""
    return measure.kind in SPLIT or (measure.kind in ("first", "last") and measure.field == TIMESTAMP)


def is_ranked(measure: Measure) -> bool:
    """Whether the measure is kept as a ranking."""
    return measure.kind in ("top", "distinct")


def is_plain(measure: Measure) -> bool:
    """Whether the measure is the count of all events."""
    return measure.kind == "count" and not (measure.field or measure.by or measure.where.fields)


Score = Callable[[Iterable[Any]], Numbers]


def scorer(measure: Measure, types: Types, get: Callable[[str], Get]) -> Score:
    """How often each value of the ranked field occurs in the events that count, or its total of the weights."""
    score, counted = _scorer(measure, types, get), measure.where.compiled(get)
    return score if counted is None else lambda events: score(filter(counted, events))


def _scorer(measure: Measure, types: Types, get: Callable[[str], Get]) -> Score:
    ranked, member = get(measure.field), types[measure.field].member

    def scores(events: Iterable[Any]) -> Numbers:
        # For few values, a Counter costs more to make than to fill.
        counts: Numbers = {}
        for event in events:
            if (value := ranked(event)) is not None:
                name = member(value)
                counts[name] = counts.get(name, 0) + 1
        return counts

    if not measure.weight:
        return scores
    weight = get(measure.weight)

    def totals(events: Iterable[Any]) -> Numbers:
        found: Numbers = {}
        for event in events:
            if (value := ranked(event)) is not None and (by := weight(event)) is not None:
                name = member(value)
                found[name] = found.get(name, 0) + by
        return found

    return totals


def number_adder(measure: Measure, types: Types, get: Callable[[str], Get]) -> AddNumbers:
    # Without a step for each event and kind, as the events of a key in a batch are few.
    if is_bound(measure) and not measure.by and not measure.where.fields:
        return _bound_adder(measure, get(measure.field))
    return _each_adder(measure, types, get)


def _bound_adder(measure: Measure, value: Get) -> AddNumbers:
    name, least_of = measure.name, measure.kind in ("least", "first")

    def add_bound(events: Iterable[Any], _add: Numbers, least: Numbers, most: Numbers) -> None:
        found = [number for event in events if (number := value(event)) is not None]
        if found and least_of:
            least[name] = min(found)
        elif found:
            most[name] = max(found)

    return add_bound


def _each_adder(measure: Measure, types: Types, get: Callable[[str], Get]) -> AddNumbers:
    name, kind, kept = measure.name, measure.kind, measure.where.compiled(get)
    value = get(measure.field) if measure.field else lambda _event: 0
    by, text = (get(measure.by), types[measure.by].text) if measure.by else (None, str)

    def add_each(events: Iterable[Any], add: Numbers, least: Numbers, most: Numbers) -> None:
        for event in events if kept is None else filter(kept, events):
            if (found := value(event)) is None:
                continue
            field = name
            if by is not None:
                if (split := by(event)) is None:
                    continue
                field = f"{name}:{text(split)}"
            match kind:
                case "count":
                    add[field] = add.get(field, 0) + 1
                case "total":
                    add[field] = add.get(field, 0) + found
                case "mean":
                    add[field] = add.get(field, 0) + found
                    counted = f"{COUNT}{field}"
                    add[counted] = add.get(counted, 0) + 1
                case "least" | "first":
                    least[field] = min(found, least.get(field, found))
                case _:
                    most[field] = max(found, most.get(field, found))

    return add_each


def groups_of(measures: Iterable[Measure], numbers: Iterable[Numbers]) -> dict[str, Groups]:
    """The bounds of the fields of `measures` by value in `numbers`, whose order is that of the events."""
    found = {}
    for measure in measures:
        for name in _prefixes(measure):
            texts = [field.removeprefix(f"{name}:") for of in numbers for field in of if field.startswith(f"{name}:")]
            found[name] = Groups(measure.values, texts)
    return found


def _prefixes(measure: Measure) -> Sequence[str]:
    """The beginnings of the fields of a measure by value."""
    return (measure.name, f"{COUNT}{measure.name}") if measure.kind == "mean" else (measure.name,)


def merged(measures: Iterable[Measure], parts: Iterable[Iterable[tuple[str, int]]]) -> Numbers:
    """The fields of all `parts` together: fields of `measures` that are no sums by their bounds."""
    bounds = {m.name: min if m.kind in ("least", "first") else max for m in measures if is_bound(m)}
    numbers: Numbers = {}
    for fields in parts:
        for field, number in fields:
            held = numbers.get(field)
            merge = bounds.get(field.partition(":")[0])
            numbers[field] = number if held is None else merge(held, number) if merge else held + number
    return numbers


def is_bound(measure: Measure) -> bool:
    """Whether the measure's numbers are the least or the greatest, no sums."""
    return measure.kind in ("least", "most", "first", "last")


def numbers_of(measures: Iterable[Measure], numbers: Mapping[str, int]) -> dict[str, Any]:
    """The values of `measures`, by name, from the fields; of values without a number of their own by `other_name`."""
    found: dict[str, Any] = {}
    for measure in measures:
        name = measure.name
        if measure.by:
            found |= _by_value(measure, numbers)
        else:
            found[name] = _number(measure, name, numbers)
    return found


def _number(measure: Measure, field: str, numbers: Mapping[str, int]) -> Any:
    """The value in a field, or of no event."""
    number = numbers.get(field)
    if number is None:
        return 0 if measure.kind in ("count", "total") else None
    return (number, numbers[COUNT + field]) if measure.kind == "mean" else number


def _by_value(measure: Measure, numbers: Mapping[str, int]) -> dict[str, Any]:
    """The values by text. Partitions of all keys may have too many together: the first texts are kept."""
    name, prefix = measure.name, f"{measure.name}:"
    fields = sorted(field for field in numbers if field.startswith(prefix))
    if further := fields[measure.values :]:
        names = {f"{mark}{field}": f"{mark}{name}" for field in further for mark in ("", COUNT)}
        numbers = merged([measure], [[(names.get(field, field), number) for field, number in numbers.items()]])
    kept = fields[: measure.values]
    found: dict[str, Any] = {name: {field.removeprefix(prefix): _number(measure, field, numbers) for field in kept}}
    return found | {other_name(name): _number(measure, name, numbers)} if name in numbers else found


def other_name(measure: str) -> str:
    """Names, beside the measures, the number of values of a measure without a number of their own."""
    return f"other.{measure}"


def summed(parts: Iterable[Iterable[tuple[str, int]]]) -> Mapping[str, int]:
    """The scores of several rankings together."""
    scores: Counter[str] = Counter()
    for members in parts:
        for member, score in members:
            scores[member] += score
    return scores


def ranked(measure: Measure, scores: Mapping[str, int]) -> Any:
    """The first members with their scores, or the number of members."""
    if measure.kind == "distinct":
        return len(scores)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0].encode()))[: measure.n]
