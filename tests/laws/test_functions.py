"""Services in functions: their state against plain recounts, however batches are cut, and what is refused."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Emit, Record
from streamstate.erasure.applying import personal
from streamstate.errors import BadRecord, NotRequested
from streamstate.functions import (
    Counters,
    Least,
    Most,
    Output,
    Ranking,
    Recent,
    State,
    Sum,
    Text,
    fold,
    source,
    view,
)
from streamstate.keys import LONG, TEXT
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver


class Sale(msgspec.Struct):
    """A record of the topic `sales`."""

    item: str
    price: int


class Answer(msgspec.Struct):
    """All that is kept of a shop."""

    sold: int | None
    least: int | None
    most: int | None
    items: dict[str, int]
    best: list[tuple[str, int]]
    newest: list[tuple[str, int]]
    note: str | None


class All(msgspec.Struct):
    """The sums of all partitions."""

    sold: int | None
    items: dict[str, int]


SALES, NOTES = source("sales", Sale), source("notes", str, deletes=True)


class Shop(State, by=SALES, users=True):
    """Of a shop."""

    sold = Sum()
    least = Least()
    most = Most()
    items = Counters()
    best = Ranking(2)
    newest = Recent(3)
    note = Text(loaded=True)


class Everything(State):
    """Of a partition."""

    all_sold = Sum()
    all_items = Counters(TEXT)


@fold(SALES, NOTES)
def keep(record: Record[str, Any], shop: Shop, everything: Everything) -> None:
    """Sales with a note only count twice."""
    if record.topic == "notes":
        shop.note.set(record.value)
        return
    item, price = record.value.item, record.value.price
    times = 2 if shop.note.value else 1
    for cell in (shop.sold, everything.all_sold):
        cell.add(times)
    shop.least.add(price)
    shop.most.add(price)
    shop.items.add(item, times)
    shop.best.add(item, price)
    shop.newest.add(record, item, record.timestamp)
    everything.all_items.add(item, times)


@view("/v1/shops/<key>", Answer(1, 2, 2, {"a": 1}, [("a", 2)], [("a", 3)], None))
def shop(of: Shop) -> Answer:
    """All of a shop."""
    sold, least, most, note = of.sold.value, of.least.value, of.most.value, of.note.value
    return Answer(sold, least, most, dict(of.items.all()), list(of.best.top()), list(of.newest.newest()), note)


@view("/v1/everything", All(1, {"a": 1}))
def everything(of: Everything) -> All:
    """All of all shops."""
    return All(of.all_sold.value, dict(of.all_items.all()))


class One(msgspec.Struct):
    """An item of all shops."""

    item: str
    sold: int


@view("/v1/items/<key>", One("a", 1))
def item(of: Everything, name: str) -> One | None:
    """An item of all shops."""
    sold = of.all_items.get(name)
    return None if sold is None else One(name, sold)


APP = App("shops", (keep,), (shop, everything, item))

Line = tuple[str, int, str | None, int]
"""Shop, timestamp, item or note, price (0: a note)."""

lines = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 9), st.sampled_from("abcd"), st.integers(1, 5))
    | st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 9), st.sampled_from(["n", None]), st.just(0)),
    max_size=25,
)


def fed(drawn: Sequence[Line], edges: Sequence[int], driver: Driver | None = None) -> Driver:
    """One record a batch before each of the `edges`, else together; stream time is the index, so the order is given."""
    driver = driver or Driver(APP, MemoryStore(), 2)
    batches: list[dict[str, list[Any]]] = [{"sales": [], "notes": []}]
    for offset, (key, time, text, price) in enumerate(drawn):
        if offset in edges:
            batches.append({"sales": [], "notes": []})
        value = msgspec.json.encode(Sale(str(text), price)) if price else text and text.encode()
        # The greatest timestamp so far rises, whatever the times of the sales.
        batches[-1]["sales" if price else "notes"].append((offset, 100 * offset + time, key.encode(), value))
    for batch in batches:
        for partition, held in enumerate((b"x", b"y")):
            driver.feed(partition, {topic: [raw for raw in raws if raw[2] == held] for topic, raws in batch.items()})
    return driver


def expected(drawn: Sequence[Line], key: str) -> Answer:
    note: str | None = None
    items: Counter[str] = Counter()
    prices: list[int] = []
    scores: defaultdict[str, int] = defaultdict(int)
    newest: list[tuple[str, int]] = []
    for offset, (shop_, time, text, price) in enumerate(drawn):
        if shop_ != key:
            continue
        if not price:
            note = text
            continue
        items[str(text)] += 2 if note else 1
        prices.append(price)
        scores[str(text)] += price
        newest.insert(0, (str(text), 100 * offset + time))
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:2]
    least, most, sold = (min(prices), max(prices), items.total()) if prices else (None, None, None)
    return Answer(sold, least, most, dict(items), best, newest[:3], note)


class TestAgainstARecount:
    @given(lines, st.sets(st.integers(1, 24)))
    def test_the_state_is_the_records_counted_again(self, drawn: list[Line], edges: set[int]) -> None:
        driver = fed(drawn, sorted(edges))
        of_shops = {key: expected(drawn, key) for key in "xy"}
        views = {key: plain_of(driver, key) for key in "xy"}
        assert views == of_shops
        items = sum((Counter(of.items) for of in of_shops.values()), Counter())
        sold = sum(of.sold or 0 for of in of_shops.values()) or None
        assert driver.view("everything") == All(sold, dict(items))
        for name in "abcd":
            assert driver.view("item", name) == (One(name, items[name]) if items[name] else None)

    @given(lines, st.sets(st.integers(1, 24)))
    def test_deleted_users_leave_only_the_state_of_the_partition(self, drawn: list[Line], edges: set[int]) -> None:
        driver = Driver(APP, MemoryStore(), 2)
        erased = {(topic, 0): {b"x": 1_000} for topic in ("sales", "notes")}
        driver.folds = {p: personal(APP, p, erased, keep_seen=False) for p in driver.claims}
        fed(drawn, sorted(edges), driver)
        assert plain_of(driver, "x") == expected([], "x")
        # A deleted shop has no note.
        sold = (expected(drawn, "y").sold or 0) + sum(key == "x" and price > 0 for key, _, _, price in drawn)
        found = driver.view("everything")
        assert isinstance(found, All)
        assert (found.sold or 0) == sold

    def test_all_cells_of_a_user_are_exported_and_deleted(self) -> None:
        assert keep.users
        keys = [place.read.key for place in keep.users.places("x")]
        assert keys == ["shop:x", "items:x", "best:x", "newest:x", "note:x"]
        assert keep.keys == ("shop", "items", "best", "newest", "note", "everything", "all_items")


def plain_of(driver: Driver, key: str) -> Any:
    partition = "xy".index(key)
    question = shop.ask(key)
    snapshot = driver.store.read({partition: question.reads})[partition]
    return question.answer(snapshot.values)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (int, {b"7": 7, b"-9007199254740992": -(2**53), b"007": 7}, [b"", b"1.5", b"+1", b" 1", b"x", None, b"9" * 17]),
        (Annotated[int, msgspec.Meta(ge=0)], {b"0": 0}, [b"-1"]),
        (str, {b"": "", b"7": "7", "\u00e9".encode(): "\u00e9"}, [None, b"\xff"]),
        (Literal["on", "off"], {b"on": "on"}, [b"On", b"", None]),
        (TEXT, {b"a": "a"}, [b"", b"x" * 1025, None]),
        (Sale, {b'{"item": "a", "price": 1, "more": 2}': Sale("a", 1)}, [b"{}", b'{"item": "a", "price": "1"}', None]),
        (None, {b"": None, b"\xff": None}, []),
    ],
)
def test_values_are_decoded_as_declared(kind: Any, good: dict[bytes, Any], bad: list[bytes | None]) -> None:
    topic = source("in", kind)
    assert {raw: topic.decode("k", raw) for raw in good} == good
    for raw in bad:
        with pytest.raises((ValueError, BadRecord)):
            topic.decode("k", raw)
    assert source("in", kind, deletes=True).decode("k", None) is None


def test_an_output_has_the_key_of_its_cause() -> None:
    record = Record("in", 7, None, 3, 4, 5)
    assert Output("out", Sale, LONG).emit(record, Sale("a", 1)) == Emit(
        "out", LONG.encode(7), b'{"item":"a","price":1}', record
    )
    assert Output("out", int, LONG).emit(record, 12).value == b"12"


class Nothing(msgspec.Struct):
    """An answer."""


class TestWhatIsRefused:
    def test_a_fold_that_reads_a_sum(self) -> None:
        @fold(SALES)
        def reading(_record: Record[str, Sale], shop: Shop) -> None:
            assert shop.sold.value is None

        with pytest.raises(NotRequested, match="found a read of shop"):
            fed([("x", 1, "a", 1)], (), Driver(App("reading", (reading,)), MemoryStore(), 2))

    def test_a_view_that_writes(self) -> None:
        @view("/v1/shops/<key>", Nothing())
        def writing(shop: Shop) -> Nothing:
            shop.sold.add(1)
            return Nothing()

        with pytest.raises(TypeError, match="writing: a view writes nothing"):
            writing.ask("x").reads  # noqa: B018

    def test_a_view_that_reads_more_of_some_states_than_of_others(self) -> None:
        @view("/v1/shops/<key>", Nothing())
        def hasty(shop: Shop) -> Nothing | None:
            if shop.sold.value is None:
                return None
            assert shop.items.all()
            return Nothing()

        question = hasty.ask("x")
        assert question.answer([None]) is None
        with pytest.raises(NotRequested, match="the read of items before the first condition"):
            question.answer([1])
