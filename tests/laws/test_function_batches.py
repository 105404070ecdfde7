"""Folds in functions: any division of records into batches gives the same state and the same dead letters."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Emit, Fold, Record
from streamstate.erasure.applying import personal
from streamstate.errors import NotRequested
from streamstate.functions import (
    Counters,
    HoppingWindows,
    Least,
    Most,
    Output,
    Ranking,
    Recent,
    Sessions,
    State,
    Sum,
    Text,
    fold,
    outputs,
    source,
)
from streamstate.state.memory import MemoryStore
from streamstate.state.memory.timelines import Family
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


class Everything(State):
    """Of a partition."""

    total = Sum()
    steps = Counters()


class Timed(State, by=VALUES, users=True):
    """The cells with times of a key."""

    last = Text(loaded=True)
    newest = Recent(2)
    hopping = HoppingWindows(6, 2, retention=20, grace=3)
    tumbling = HoppingWindows(4, 4, retention=9, grace=5)
    sessions = Sessions(gap=2, retention=8, grace=3)
    longest = Most()


OUT = Output("out", int)


@fold(VALUES)
def timed(record: Record[str, Value], kept: Timed, everything: Everything) -> Iterator[Emit]:
    """Writes, yields and fails before, between and after each other."""
    step = record.value.of
    everything.total.add(step)
    kept.last.set(f"{(kept.last.value or '')[-3:]}{step}")
    if step == 1:
        raise ValueError
    kept.newest.add(record, "a", step)
    for window in kept.hopping.add(record, step):
        yield OUT.emit(record, window.total)
    kept.tumbling.add(record, step / 10)
    if session := kept.sessions.add(record):
        kept.longest.add(session.count)
        everything.steps.add(str(step), session.end - session.start)
    yield OUT.emit(record, step)
    if step == 2:
        raise ValueError


def all_of(records: Sequence[tuple[int, bytes, int]], cuts: set[int], erased: int) -> Any:
    """State, positions, counters, dead letters and derived records; of a user before `erased` without the user."""
    driver = Driver(App("timed", (timed,), emits=outputs(OUT)), MemoryStore())
    driver.folds = {0: personal(driver.app, 0, {("values", 0): {b"k": erased}}, keep_seen=True)}
    raw = [(offset, time, key, b'{"of": %d}' % step) for offset, (time, key, step) in enumerate(records)]
    for first, end in pairwise(sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})):
        driver.feed(0, {"values": raw[first:end]})
    (snapshot,) = driver.store.read({0: ()}).values()
    # The bounds of a family depend on the batches.
    held = driver.store.keys(0).items()  # type: ignore[attr-defined]
    keys = {key: value.expired if isinstance(value, Family) else value for key, value in held if value != {}}
    dead, emitted = (
        {letter.offset for letter in driver.dead},
        {(each.cause.offset, each.value) for each in driver.emitted},
    )
    return keys, snapshot.positions, snapshot.times, snapshot.counters, dead, emitted


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([b"k", b"k:1", b"None"]), st.integers(0, 5)), max_size=14),
    st.sets(st.integers(1, 13)),
    st.integers(0, 14),
)
def test_windows_sessions_and_failures_in_any_batches(
    records: list[tuple[int, bytes, int]], cuts: set[int], erased: int
) -> None:
    assert all_of(records, cuts, erased) == all_of(records, set(), erased)
