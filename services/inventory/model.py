"""The stock of every store, and orders matched with their payments: two folds, each over two topics."""

from services.inventory import payments, stock
from streamstate.app import App, Derived
from streamstate.keys import TEXT

APP = App(
    name="inventory",
    folds=(stock.FOLD, payments.FOLD),
    views=(stock.VIEW, payments.VIEW),
    emits={payments.PAID_ORDERS: Derived(TEXT, payments.PaidOrder)},
)
