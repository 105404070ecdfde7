"""Mistakes in functions are refused where they are declared, or work."""

import types
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Literal

import msgspec
import pytest

from streamstate.app import App, Fold, FoldContext, Record, Rows, Source
from streamstate.erasure.applying import personal
from streamstate.functions import (
    Counters,
    HoppingWindows,
    Least,
    Most,
    Output,
    Ranking,
    Recent,
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


SALES, NOTES = source("sales", int), source("notes", str)


def function(**parameters: Any) -> Any:
    """A function with parameters of these types."""

    def made(*_given: Any) -> None: ...

    made.__dict__["__signature__"] = Signature([Parameter(name, Parameter.POSITIONAL_ONLY) for name in parameters])
    made.__annotations__ = parameters
    return made


def state(*bases: type, by: Source[Any, Any] | None = None, users: bool = False, **cells: Any) -> Any:
    """A state called Made with these members."""
    return types.new_class("Made", bases or (State,), {"by": by, "users": users}, lambda members: members.update(cells))


def counted(by: Source[Any, Any], **cells: Any) -> Fold:
    return fold(by)(function(record=Record, made=state(by=by, **cells)))


# Each by the error.
MISTAKES: list[tuple[str, Callable[[], object]]] = [
    ("Made is by the topic sales; add it", lambda: fold(NOTES)(function(record=Record, made=state(by=SALES)))),
    ("state is no State and no Rows", lambda: fold(SALES)(function(record=Record, state=Any))),
    ("state is no State and no Rows", lambda: fold(SALES)(lambda _record, state, **_others: state)),
    ("is a member of State", lambda: state(effects=Sum())),
    ("is a member of State", lambda: state(cells=Sum())),
    ("State as its only base", lambda: state(User, more=Sum())),
    ("two members are kept as made", lambda: counted(SALES, most=Sum(), made=Ranking(3))),
    ("two parameters are the state User", lambda: fold(NUMBERS)(function(record=Record, one=User, other=User))),
    ("two folds keep items", lambda: App("both", (counted(SALES, items=Counters()), counted(NOTES, items=Counters())))),
    ("the annotation Local is unknown in the module", lambda: fold(NUMBERS)(function(record=Record, local="Local"))),
    ("the annotation Local is unknown in the module", lambda: view("/v1/local", Answer(1))(function(local="Local"))),
    ("one State, and <key> in the path", lambda: view("/v1/users", Answer(1))(function(user=User))),
    ("one State, and <key> in the path", lambda: view("/v1/users", Answer(1))(function())),
    *(
        (r"the parameters of the request in one msgspec\.Struct", lambda path=path, more=more: view(path, Answer(1))(
            function(key=str, **more, everyone=Everyone)))
        for path, more in (("/v1/many/<key>", {"least": int}), ("/v1/keyless", {}))
    ),
    *(
        ("Made: best has no sum over partitions", lambda cell=cell: state(best=cell))
        for cell in (Least(), Most(), Ranking(2), Recent(2), Text(), HoppingWindows(1, 1, 1))
    ),
    *(
        ("pairs keeps no state of users, and no windows", lambda kept=kept: fold_pairs(SALES, NOTES, 1, 1)(
            function(pair=Pair, kept=kept)))
        for kept in (state(by=SALES, users=True, sold=Sum()), state(by=NOTES, windows=HoppingWindows(10, 10, 10)))
    ),
    ("a member is kept as notes, as are the records", lambda: fold_pairs(SALES, NOTES, 5, 5)(
        function(pair=Pair, paid=state(by=SALES, notes=Counters())))),
    *(
        (r"the values of numbers have the type .*; declare a msgspec.Struct, int",
         lambda kind=kind: source("numbers", kind))
        for kind in (float, bool, list[int], int | None, Literal[1, 2], Answer | None)
    ),
    *(
        ("a value of out is of type int, not", lambda value=value: OUT.emit(Record("numbers", 1, 7, 0, 0, 0), value))
        for value in (None, 1.5, "1")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("error", "mistake"), MISTAKES, ids=[error for error, _ in MISTAKES])
def test_a_mistake_is_refused_where_it_is_declared(error: str, mistake: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        mistake()


def test_a_fold_of_pairs_keeps_the_records_of_both_topics() -> None:
    well = fold_pairs(SALES, NOTES, 5, 5, version=2)(function(pair=Pair, fine=state(by=SALES, fine=Counters())))
    assert (well.keys, well.version) == (("sales", "notes", "fine"), 2)


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


def test_a_value_in_place_of_a_cell() -> None:
    @fold(NUMBERS)
    def setting(_record: Record[int, int], user: User) -> None:
        user.text = "a"  # type: ignore[assignment]

    driver = of_deleted(App("a", (setting,)), [(2, 0)])
    assert "write by a method of its cell, such as `add` or `set`" in str(driver.dead[0].error)


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
