"""Orders and their payments, matched within five minutes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from streamstate.app import Effect, Emit, Source
from streamstate.keys import TEXT
from streamstate.operators.interval_join import Pair, paired
from streamstate.state.operations import Field, Merge, Read
from streamstate.view import EXPLORE, View

ORDERS, PAYMENTS, PAID_ORDERS = "orders", "payments", "paid-orders"
MINUTE_MS = 60_000


class PaidOrder(msgspec.Struct):
    """A record of the topic of matches."""

    order: str
    payment: str


class Paid(msgspec.Struct):
    """How often an order was matched with a payment."""

    order: str
    payments: int


def decode(_order: str, value: bytes | None) -> str:
    return TEXT.decode(value)


def apply(pairs: Sequence[Pair]) -> Iterable[Effect]:
    for pair in pairs:
        text = msgspec.json.encode(PaidOrder(pair.left.value, pair.right.value))
        yield Emit(PAID_ORDERS, TEXT.encode(pair.key), text, pair.cause)
    for order, payments in Counter(pair.key for pair in pairs).items():
        yield Merge(_paid(order), add={"payments": payments})


def reads(order: str) -> Sequence[Read]:
    return [Field(_paid(order), "payments")]


def paid(order: str, values: Sequence[Any]) -> Paid | None:
    (payments,) = values
    return None if payments is None else Paid(order, payments)


def _paid(order: str) -> str:
    return f"paid:{order}"


FOLD = paired(
    Source(ORDERS, TEXT, decode, form="text"),
    Source(PAYMENTS, TEXT, decode, form="text"),
    within=5 * MINUTE_MS,
    grace=MINUTE_MS,
    apply=apply,
)
SUMMARY = "How often an order was paid"
EXAMPLE = Paid("order-42", 1)
VIEW = View("payments", "/v1/orders/<key>/payments", SUMMARY, ORDERS, TEXT, reads, paid, EXAMPLE, scope=EXPLORE)
