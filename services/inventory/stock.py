"""The stock of a store: two topics, a number for each item."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamstate.app import Fold, FoldContext, Record, Source
from streamstate.formats.typed import json_decoder
from streamstate.keys import TEXT
from streamstate.state.operations import Field, Fields, Merge, Operation, Read
from streamstate.view import EXPLORE, View

RESTOCKED, SOLD = "restocked", "sold"

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


_decode = json_decoder(Change)


def decode(_store: str, value: bytes | None) -> Change:
    return _decode(value)


def fold(records: Sequence[Record[str, Change]], _context: FoldContext) -> Iterable[Operation]:
    changes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        quantity = record.value.quantity
        changes[record.key][record.value.item] += -quantity if record.topic == SOLD else quantity
    for store, of_items in changes.items():
        yield Merge(_stock(store), add=dict(of_items))


def reads(store: str, wanted: Wanted) -> Sequence[Read]:
    return [Fields(_stock(store)) if wanted.item is None else Field(_stock(store), wanted.item)]


def stock(store: str, values: Sequence[Any], wanted: Wanted) -> Stock | None:
    """None for a store without any item, or without the requested item."""
    (quantities,) = values
    if wanted.item is not None:
        quantities = {} if quantities is None else {wanted.item: quantities}
    return Stock(store, [Item(*item) for item in sorted(quantities.items())]) if quantities else None


def _stock(store: str) -> str:
    return f"stock:{store}"


FOLD = Fold((Source(RESTOCKED, TEXT, decode), Source(SOLD, TEXT, decode)), fold)
VIEW = View(
    name="stock",
    path="/v1/stores/<key>/stock",
    summary="The stock of a store, of all items or of one",
    topic=SOLD,
    key=TEXT,
    reads=reads,
    answer=stock,
    example=Stock("berlin", [Item("bread", 12), Item("milk", -1)]),
    query=Wanted,
    scope=EXPLORE,
)
