"""Mistakes in functions are refused where they are declared, or work."""

import pickle
from datetime import datetime
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import pytest
from msgspec import Meta

from streamstate.app import App, FoldContext, Record, Rows
from streamstate.erasure.folds import personal
from streamstate.functions import (
    Counters,
    HoppingWindows,
    Output,
    State,
    Sum,
    Text,
    fold,
    fold_pairs,
    outputs,
    source,
    view,
)
from streamstate.keys import LONG, TEXT
from streamstate.operators.interval_join import Pair
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Merge
from streamstate.testing import Driver

NUMBERS = source("numbers", int, LONG)
OUT = Output("out", int, LONG)


class User(State, by=NUMBERS, users=True):
    """Of a user."""

    text = Text()
    windows = HoppingWindows(10, 10, retention=100)


class Everyone(State):
    """Of a partition."""

    records = Sum()


class Answer(msgspec.Struct):
    """A number."""

    number: int | None


def of_deleted(app: App, records: list[tuple[int, int]]) -> Driver:
    """The state of records (user, timestamp) after the deletion of user 1."""
    driver = Driver(app, MemoryStore())
    erased = {("numbers", 0): {LONG.encode(1): 1_000}}
    driver.folds = {0: personal(app, 0, erased, keep_seen=False)}
    driver.feed(0, {"numbers": [(n, time, LONG.encode(user), b"7") for n, (user, time) in enumerate(records)]})
    return driver


def test_a_fold_that_publishes_counts_the_records_of_deleted_users() -> None:
    @fold(NUMBERS)
    def publish(record: Record[int, int], everyone: Everyone) -> Any:
        yield OUT.emit(record, record.value)
        everyone.records.add()

    driver = of_deleted(App("a", (publish,), emits=outputs(OUT)), [(1, 0), (2, 0)])
    assert driver.store.keys(0)["everyone"] == {"records": 2}  # type: ignore[attr-defined]
    assert [emit.key for emit in driver.emitted] == [LONG.encode(2)]
    assert not driver.dead


def test_a_record_of_a_deleted_user_is_no_dead_letter() -> None:
    """A letter would hold the key and the value."""

    @fold(NUMBERS)
    def count(record: Record[int, int], everyone: Everyone) -> None:
        everyone.records.add(record.value + record.key)

    driver = of_deleted(App("a", (count,)), [(1, 0), (2, 0), (1, 0)])
    assert driver.store.keys(0)["everyone"] == {"records": 7 + 2}  # type: ignore[attr-defined]
    assert not driver.dead


def test_a_late_record_stays_late_when_its_user_is_deleted() -> None:
    @fold(NUMBERS)
    def count(record: Record[int, int], user: User, everyone: Everyone) -> None:
        if user.windows.add(record):
            everyone.records.add()

    for late in (1, 3):
        driver = of_deleted(App("a", (count,)), [(2, 1_000), (late, 0), (1, 1_001)])
        assert driver.store.keys(0)["everyone"] == {"records": 2}  # type: ignore[attr-defined]


def test_a_deleted_user_has_no_rows() -> None:
    seen: list[Any] = []

    @fold(NUMBERS, lookups=lambda records: {"names": [record.key for record in records]})
    def look(record: Record[int, int], everyone: Everyone, rows: Rows) -> None:
        seen.append((record.key, rows["names"][record.value], rows["names"].get(7)))
        everyone.records.add()

    nameless = Record("numbers", None, 7, 0, 0, 0)
    assert [*look.shared([nameless], FoldContext())] == [Merge("everyone", {"records": 1})]
    assert seen == [(None, None, None)]


@pytest.mark.parametrize("value", [None, 1.5, "1"])
def test_a_derived_value_of_another_type(value: Any) -> None:
    with pytest.raises(TypeError, match="a value of out is of type int, not"):
        OUT.emit(Record("numbers", 1, 7, 0, 0, 0), value)


def test_a_state_in_quotes() -> None:
    class Local(State):
        records = Sum()

    def count(_record: Record[int, int], _local: "Local") -> None: ...

    def answer(_local: "Local") -> Answer: ...  # type: ignore[empty-body]

    for make in (lambda: fold(NUMBERS)(count), lambda: view("/v1/local", Answer(1))(answer)):
        with pytest.raises(TypeError, match="the annotation Local is unknown in the module"):
            make()
    assert Local.title() == "local"


def test_a_driver_names_what_it_has() -> None:
    @fold(NUMBERS)
    def count(_record: Record[int, int], everyone: Everyone) -> None:
        everyone.records.add()

    @view("/v1/total", Answer(1))
    def total(everyone: Everyone) -> Answer:
        return Answer(everyone.records.value)

    driver = Driver(App("counting", (count,), (total,)), MemoryStore(), 2)
    with pytest.raises(ValueError, match="counting reads no topic number; it reads numbers"):
        driver.feed(0, {"number": [(0, 0, b"", b"")]})
    with pytest.raises(ValueError, match="holds no partition 2; it holds 0, 1"):
        driver.feed(2, {"numbers": []})
    with pytest.raises(ValueError, match="counting has no view totals; it has total"):
        driver.view("totals")


class Loose(msgspec.Struct):
    """Parameters that are not frozen."""

    least: int = 0


class Lists(msgspec.Struct, frozen=True):
    """Parameters with a list."""

    names: list[str] = []


@pytest.mark.parametrize("parameters", [Loose, Lists])
def test_parameters_that_cannot_be_hashed(parameters: type) -> None:
    def total(everyone: Everyone, _asked: parameters) -> Answer:  # type: ignore[valid-type]
        return Answer(everyone.records.value)

    question = view("/v1/total", Answer(1))(total).ask("", parameters())
    assert len(question.reads) == 1
    assert question.answer([[3], [None], [4]]) == Answer(7)


def test_a_view_with_parameters_outside_a_struct() -> None:
    def many(_key: str, _least: int, _everyone: Everyone) -> None: ...

    def keyless(_key: str, _everyone: Everyone) -> None: ...

    for path, function in (("/v1/many/<key>", many), ("/v1/keyless", keyless)):
        with pytest.raises(TypeError, match=r"the parameters of the request in one msgspec\.Struct"):
            view(path, Answer(1))(function)


def test_a_value_in_place_of_a_cell() -> None:
    @fold(NUMBERS)
    def setting(_record: Record[int, int], user: User) -> None:
        user.text = "a"  # type: ignore[assignment]

    driver = of_deleted(App("a", (setting,)), [(2, 0)])
    assert "write by a method of its cell, such as `add` or `set`" in str(driver.dead[0].error)


def test_one_state_twice() -> None:
    def twice(_record: Record[int, int], _one: User, _other: User) -> None: ...

    with pytest.raises(TypeError, match="two parameters are the state User"):
        fold(NUMBERS)(twice)


def test_a_member_of_a_fold_of_pairs_with_the_name_of_a_topic() -> None:
    orders, payments = source("orders", TEXT), source("payments", TEXT)

    class Paid(State, by=orders):
        payments = Counters()

    class Fine(State, by=orders):
        fine = Counters()

    def matching(_pair: Pair, _paid: Paid) -> None: ...
    def well(_pair: Pair, _paid: Fine) -> None: ...

    with pytest.raises(TypeError, match="a member is kept as payments, as are the records"):
        fold_pairs(orders, payments, 5, 5)(matching)
    well_matched = fold_pairs(orders, payments, 5, 5, version=2)(well)
    assert (well_matched.keys, well_matched.version) == (("orders", "payments", "fine"), 2)


@pytest.mark.parametrize("batches", [1, 2])
def test_pairs_of_other_values_than_texts(batches: int) -> None:
    left, right = source("left", int), source("right", TEXT, deletes=True)

    class Seen(State, by=left):
        kinds = Counters()

    @fold_pairs(left, right, 5, 5)
    def matching(pair: Pair, seen: Seen) -> None:
        seen.kinds.add(type(pair.left.value).__name__)

    driver = Driver(App("pairs", (matching,)), MemoryStore())
    raw: dict[str, list[RawRecord]] = {"left": [(0, 0, b"k", b"7")], "right": [(0, 1, b"k", b"a"), (1, 2, b"k", None)]}
    for topics in ([raw], [{topic: records} for topic, records in raw.items()])[batches - 1]:
        driver.feed(0, topics)
    assert [(letter.topic, letter.offset) for letter in driver.dead] == [("left", 0), ("right", 1)]
    assert "declare both topics by `str` or `TEXT`" in str(driver.dead[0].error)


@pytest.mark.parametrize("kind", [float, bool, list[int], int | None, Literal[1, 2], Loose | None])
def test_a_topic_of_values_that_no_record_can_have(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"the values of numbers have the type .*; declare a msgspec.Struct, int"):
        source("numbers", kind)


class Moment(msgspec.Struct):
    """A value with a bound on its time."""

    at: Annotated[datetime, Meta(tz=True)]


def test_bounds_of_times_go_to_workers() -> None:
    annotation = get_type_hints(Moment, include_extras=True)["at"]
    assert pickle.loads(pickle.dumps(annotation.__metadata__)) == (Meta(tz=True),)
