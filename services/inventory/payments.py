"""Orders and their payments, matched within five minutes."""

from collections.abc import Iterator

import msgspec

from streamstate.app import Emit
from streamstate.functions import Output, Pair, State, Sum, fold_pairs, source, view
from streamstate.keys import TEXT

MINUTE_MS = 60_000


class PaidOrder(msgspec.Struct):
    """A record of the topic of matches."""

    order: str
    payment: str


class OrderPayments(msgspec.Struct):
    """How often an order was matched with a payment."""

    order: str
    payments: int


ORDERS, PAYMENTS = source("orders", TEXT), source("payments", TEXT)
PAID_ORDERS = Output("paid-orders", PaidOrder)


class Paid(State, by=ORDERS):
    """The payments of an order."""

    payments = Sum()


@fold_pairs(ORDERS, PAYMENTS, within=5 * MINUTE_MS, grace=MINUTE_MS)
def match(pair: Pair, paid: Paid) -> Iterator[Emit]:
    """Publish and count a payment of an order."""
    yield PAID_ORDERS.emit(pair.cause, PaidOrder(pair.left.value, pair.right.value))
    paid.payments.add()


@view("/v1/orders/<key>/payments", OrderPayments("order-42", 1), scope="explore")
def payments(order: str, paid: Paid) -> OrderPayments | None:
    """How often an order was paid."""
    number = paid.payments.value
    return None if number is None else OrderPayments(order, number)
