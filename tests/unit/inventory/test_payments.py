"""Orders and payments, matched by hand."""

from services.inventory.model import APP
from services.inventory.payments import MINUTE_MS, ORDERS, PAYMENTS, Paid
from streamstate.operators.windows import LATE
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver


def test_orders_are_matched_with_payments_at_most_five_minutes_away() -> None:
    driver = Driver(APP, MemoryStore())
    driver.feed(0, {ORDERS: [(0, 10 * MINUTE_MS, b"a", b"tea")]})
    driver.feed(0, {PAYMENTS: [(0, 15 * MINUTE_MS, b"a", b"cash"), (1, 16 * MINUTE_MS, b"a", b"card")]})
    driver.feed(0, {ORDERS: [(1, 11 * MINUTE_MS, b"a", b"cake"), (2, 9 * MINUTE_MS, b"a", b"late")]})
    assert [emit.value for emit in driver.emitted] == [
        b'{"order":"tea","payment":"cash"}',
        b'{"order":"cake","payment":"cash"}',
        b'{"order":"cake","payment":"card"}',
    ]
    assert driver.view("payments", "a") == Paid("a", 3)
    assert driver.view("payments", "b") is None
    assert driver.store.read({0: []})[0].counters == {LATE: 1}
