"""Folds in functions: any division of records into batches gives the same state and the same dead letters."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from streamstate.app import App, Fold, Record
from streamstate.errors import NotRequested
from streamstate.functions import Counters, HoppingWindows, Least, Most, Ranking, Recent, State, Sum, Text, fold, source
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver


class Value(msgspec.Struct):
    """A record: any JSON value."""

    of: Any


VALUES, OTHERS = source("values", Value), source("others", str)


class Kept(State, by=VALUES):
    """Of a key."""

    records = Sum()
    number = Sum()
    least = Least()
    most = Most()
    counters = Counters()
    ranking = Ranking(3)
    recent = Recent(3)
    text = Text(loaded=True)
    unread = Text()
    windows = HoppingWindows(10, 10, retention=100)


def fed(kept: Fold, values: Sequence[Any], batches: Sequence[Sequence[int]]) -> tuple[Any, Sequence[int]]:
    """The state, and the offsets of dead letters."""
    driver = Driver(App("kept", (kept,)), MemoryStore())
    for batch in batches:
        raw = [(offset, 0, b"k", msgspec.json.encode(Value(values[offset]))) for offset in batch]
        driver.feed(0, {"values": raw})
    keys = {key: value for key, value in driver.store.keys(0).items() if isinstance(value, dict | str)}  # type: ignore[attr-defined]
    return keys, [letter.offset for letter in driver.dead]


def alike(kept: Fold, values: Sequence[Any]) -> tuple[Any, Sequence[int]]:
    """As `fed`, after the records together and one by one give the same."""
    together, single = (fed(kept, values, cut) for cut in ([[*range(len(values))]], [[n] for n in range(len(values))]))
    assert together == single
    return together


NUMBERS: dict[str, Callable[[Kept, Any], Any]] = {
    "number": lambda kept, number: kept.number.add(number),
    "least": lambda kept, number: kept.least.add(number),
    "most": lambda kept, number: kept.most.add(number),
    "counters": lambda kept, number: kept.counters.add("a", number),
    "ranking": lambda kept, number: kept.ranking.add("a", number),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("bad", [1.5, -1.5, 2**53 + 1, -(2**53) - 1])
def test_a_number_is_refused_beside_any_others(name: str, bad: float) -> None:
    @fold(VALUES)
    def keep(record: Record[str, Value], kept: Kept) -> None:
        kept.records.add()
        NUMBERS[name](kept, record.value.of)

    state, dead = alike(keep, [1, bad, 2, -1])
    assert state["kept:k"]["records"] == 3
    assert dead == [1]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_truth_value_is_a_number(name: str) -> None:
    @fold(VALUES)
    def keep(record: Record[str, Value], kept: Kept) -> None:
        NUMBERS[name](kept, record.value.of > 2)

    state, dead = alike(keep, [3, 1, 7])
    assert not dead
    numbers = next(iter(state.values())).values()
    assert all(type(number) is int for number in numbers)


TEXTS: dict[str, Callable[[Record[str, Value], Kept], Any]] = {
    "text": lambda record, kept: kept.text.set(record.value.of),
    "counters": lambda record, kept: kept.counters.add(record.value.of),
    "ranking": lambda record, kept: kept.ranking.add(record.value.of),
    "recent": lambda record, kept: kept.recent.add(record, record.value.of, 0),
    "time of recent": lambda record, kept: kept.recent.add(record, "a", 2**53 + (record.value.of == "a")),
}


@pytest.mark.parametrize("name", TEXTS)
def test_another_type_than_text_is_a_dead_letter(name: str) -> None:
    @fold(VALUES)
    def keep(record: Record[str, Value], kept: Kept) -> None:
        TEXTS[name](record, kept)

    state, dead = alike(keep, ["b", 5, "b"] if name != "time of recent" else ["b", "a", "b"])
    assert state
    assert dead == [1]


def test_a_text_that_is_not_loaded_is_never_read() -> None:
    @fold(VALUES)
    def keep(record: Record[str, Value], kept: Kept) -> None:
        kept.unread.set(record.value.of)
        assert kept.unread.value

    with pytest.raises(NotRequested, match=r"texts only that are `Text\(loaded=True\)`"):
        fed(keep, ["a"], [[0]])


def test_equal_texts_of_two_topics_are_two() -> None:
    @fold(VALUES, OTHERS)
    def keep(record: Record[str, Any], kept: Kept) -> None:
        kept.recent.add(record, "a", record.timestamp)

    driver = Driver(App("kept", (keep,)), MemoryStore())
    driver.feed(0, {"values": [(0, 5, b"k", b'{"of": 1}')], "others": [(0, 5, b"k", b""), (1, 6, b"k", b"")]})
    assert driver.store.keys(0)["recent:k"] == {"a1:others a": 6, "a0:others a": 5, "a0 a": 5}  # type: ignore[attr-defined]


@pytest.mark.parametrize("bad", [Fraction(1, 2), "1", None])
def test_windows_take_numbers(bad: Any) -> None:
    @fold(VALUES)
    def keep(record: Record[str, Value], kept: Kept) -> None:
        kept.windows.add(record, bad if record.value.of == 5 else record.value.of > 6)

    state, dead = alike(keep, [7, 5, 7, 6])
    assert state["windows:k"] == {"[0,3,0,1,2]": 0}
    assert dead == [1]
