"""The stock of stores, and orders matched with payments, by hand."""

from typing import Any

import pytest

from services.inventory.model import APP
from services.inventory.payments import MINUTE_MS, ORDERS, PAYMENTS, OrderPayments
from services.inventory.stock import RESTOCKED, SOLD, Item, Stock, Wanted
from streamstate.app import LATE
from streamstate.processing.decode import RawRecord
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver

# The stock of stores, counted by hand.


def line(offset: int, store: bytes, item: str, quantity: int) -> RawRecord:
    return offset, 1_000 + offset, store, b'{"item": "%s", "quantity": %d}' % (item.encode(), quantity)


@pytest.fixture
def driver() -> Driver:
    driver = Driver(APP, MemoryStore())
    driver.feed(
        0,
        {
            RESTOCKED.topic: [
                line(0, b"berlin", "tea", 10),
                line(1, b"berlin", "tea", 5),
                line(2, b"berlin", "cake", 4),
            ],
            SOLD.topic: [line(0, b"berlin", "tea", 3), line(1, b"paris", "cake", 2)],
        },
    )
    return driver


def test_the_whole_stock_of_a_store_is_one_answer(driver: Driver) -> None:
    assert driver.view("stock", "berlin") == Stock("berlin", [Item("cake", 4), Item("tea", 10 + 5 - 3)])
    assert driver.view("stock", "rome") is None


def test_what_is_sold_before_it_came_is_missing(driver: Driver) -> None:
    assert driver.view("stock", "paris") == Stock("paris", [Item("cake", -2)])
    driver.feed(0, {RESTOCKED.topic: [line(3, b"paris", "cake", 2)]})
    assert driver.view("stock", "paris") == Stock("paris", [Item("cake", 0)])


@pytest.mark.parametrize(
    "value",
    [
        None, b"3", b'{"item": "tea"}', b'{"item": "", "quantity": 1}', b'{"item": "tea", "quantity": 0}',
        b'{"item": "tea", "quantity": 1000001}', b'{"item": "tea", "quantity": 1.5}',
    ],
)  # fmt: skip
def test_a_change_that_is_none_is_a_dead_letter(driver: Driver, value: Any) -> None:
    driver.feed(0, {SOLD.topic: [(2, 1_002, b"berlin", value)]})
    assert [letter.value for letter in driver.dead] == [value]
    assert driver.view("stock", "berlin", Wanted("tea")) == Stock("berlin", [Item("tea", 12)])


# Orders and payments, matched by hand.


def test_orders_are_matched_with_payments_at_most_five_minutes_away() -> None:
    driver = Driver(APP, MemoryStore())
    driver.feed(0, {ORDERS.topic: [(0, 10 * MINUTE_MS, b"a", b"tea")]})
    driver.feed(0, {PAYMENTS.topic: [(0, 15 * MINUTE_MS, b"a", b"cash"), (1, 16 * MINUTE_MS, b"a", b"card")]})
    driver.feed(0, {ORDERS.topic: [(1, 11 * MINUTE_MS, b"a", b"cake"), (2, 9 * MINUTE_MS, b"a", b"late")]})
    assert [emit.value for emit in driver.emitted] == [
        b'{"order":"tea","payment":"cash"}',
        b'{"order":"cake","payment":"cash"}',
        b'{"order":"cake","payment":"card"}',
    ]
    assert driver.view("payments", "a") == OrderPayments("a", 3)
    assert driver.view("payments", "b") is None
    assert driver.store.read({0: []})[0].counters == {LATE: 1}
