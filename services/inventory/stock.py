"""The stock of a store: two topics, a number for each item."""

from typing import Annotated

import msgspec
from msgspec import Meta

from streamstate.app import Record
from streamstate.functions import Counters, State, fold, source, view

ItemName = Annotated[str, Meta(min_length=1, max_length=100)]


class Change(msgspec.Struct):
    """How many of an item came to a store, or were sold there."""

    item: ItemName
    quantity: Annotated[int, Meta(ge=1, le=1_000_000)]


class Item(msgspec.Struct):
    """The stock of an item; negative for an item sold before its first delivery."""

    item: str
    quantity: int


class Stock(msgspec.Struct):
    """The items of a store, past items included, by name."""

    store: str
    items: list[Item]


class Wanted(msgspec.Struct, frozen=True):
    """The parameters of a request."""

    item: Annotated[ItemName | None, Meta(description="the only item that is wanted")] = None


RESTOCKED, SOLD = source("restocked", Change), source("sold", Change)


class StoreStock(State, by=SOLD):
    """The items of a store."""

    stock = Counters()


@fold(RESTOCKED, SOLD)
def move(record: Record[str, Change], store: StoreStock) -> None:
    """Add a delivery, or take a sale away."""
    quantity = record.value.quantity
    store.stock.add(record.value.item, -quantity if record.topic == SOLD.topic else quantity)


@view("/v1/stores/<key>/stock", Stock("berlin", [Item("bread", 12), Item("milk", -1)]), scope="explore")
def stock(key: str, store: StoreStock, wanted: Wanted) -> Stock | None:
    """The stock of a store, of all items or of one."""
    if wanted.item is None:
        quantities = store.stock.all()
    else:
        quantity = store.stock.get(wanted.item)
        quantities = {} if quantity is None else {wanted.item: quantity}
    return Stock(key, [Item(*item) for item in sorted(quantities.items())]) if quantities else None
