"""The stock of every store, and orders matched with their payments: two folds, each over two topics."""

from services.inventory.payments import PAID_ORDERS, match, payments
from services.inventory.stock import move, stock
from streamstate.app import App
from streamstate.functions import outputs

APP = App("inventory", (move, match), (stock, payments), emits=outputs(PAID_ORDERS))
