"""The stock of every store and the pairs of orders and payments, counted again."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Message

from services.reference_decoding import document, sortable, text_key
from streamstate.verify.recount import Recount, Recounted, Stored, unequal

STREAMS = ("orders", "payments")
WITHIN_MS, GRACE_MS = 300_000, 60_000
LONGEST, MOST = 100, 1_000_000

Entries = dict[bytes, float]
"""A member of a timeline (sortable offset and value) and its time."""


class Inventory(Recount):
    """A partition.

    The lateness of an order or a payment depends on the limits of micro-batches. Records in time with any limits must
    be in the state; other records may be.
    """

    unsure = ("late_records",)

    def __init__(self) -> None:
        self._stock: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._timelines: dict[str, defaultdict[str, Entries]] = {stream: defaultdict(dict) for stream in STREAMS}
        self._now = 0

    def add(self, message: Message, stream_time: int) -> bool:
        topic, key = str(message.topic()), text_key(message.key())
        if key is None:
            return False
        if topic not in STREAMS:
            return self._move(topic, key, document(message.value()))
        value = text_key(message.value())
        if value is None:
            return False
        member = f"{sortable(message.offset() or 0)} {value}"
        self._timelines[topic][key][member.encode()] = float(message.timestamp()[1])
        self._now = max(self._now, stream_time)
        return True

    def _move(self, topic: str, store: str, change: dict[str, Any] | None) -> bool:
        item, quantity = (change or {}).get("item"), (change or {}).get("quantity")
        if not isinstance(item, str) or not 1 <= len(item) <= LONGEST:
            return False
        if text_key(item.encode(errors="surrogatepass")) is None:
            return False
        if type(quantity) is not int or not 1 <= quantity <= MOST:
            return False
        self._stock[store][item] += -quantity if topic == "sold" else quantity
        return True

    def expected_keys(self) -> Iterable[str]:
        yield from (f"stock:{store}" for store in self._stock)
        for stream, timelines in self._timelines.items():
            yield from (f"{stream}:{key}" for key, entries in timelines.items() if self._certain(entries))
        yield from (f"paid:{order}" for order in self._timelines["orders"] if self._payments(order)[0])

    def wrong(self, key: str, stored: Stored | None) -> str | None:
        kind, _, name = key.partition(":")
        if kind in STREAMS:
            return self._wrong_timeline(kind, name, stored)
        if kind == "paid":
            return self._wrong_count(name, stored)
        quantities = self._stock.get(name, Counter()) if kind == "stock" else Counter()
        return unequal({item.encode(): b"%d" % of for item, of in quantities.items()} or None, stored)

    def _wrong_count(self, order: str, stored: Stored | None) -> str | None:
        least, most = self._payments(order)
        if stored is None:
            return unequal(least, 0)
        payments = range(max(least, 1), most + 1)
        fits = stored in [{b"payments": b"%d" % count} for count in payments]
        return None if fits else f"expected {least} to {most} payments, found {stored!r}"

    def _wrong_timeline(self, stream: str, key: str, stored: Stored | None) -> str | None:
        """Of a timeline, the records of a key; of the family, the keys."""
        if not isinstance(stored, dict | None):
            return unequal("a sorted set", stored)
        timelines, held = self._timelines[stream], stored or {}
        if key:
            entries = timelines.get(key, {})
            fits = self._certain(entries).items() <= held.items() <= entries.items()
        else:
            certain = {name.encode() for name, entries in timelines.items() if self._certain(entries)}
            fits = certain <= held.keys() <= {name.encode() for name in timelines}
        return None if fits else f"expected the records of the topic {stream}, found {stored!r}"

    def _certain(self, entries: Entries) -> Entries:
        """The records in time that the state keeps."""
        return {member: time for member, time in entries.items() if time + WITHIN_MS + GRACE_MS >= self._now}

    def _payments(self, order: str) -> tuple[int, int]:
        """How many payments of `order` there are at least, and at most."""
        of_order, of_payment = (self._timelines[stream].get(order, {}) for stream in STREAMS)
        return _pairs(self._certain(of_order), self._certain(of_payment)), _pairs(of_order, of_payment)


def _pairs(left: Entries, right: Entries) -> int:
    return sum(abs(one - other) <= WITHIN_MS for one in left.values() for other in right.values())


RECOUNT = Recounted("inventory", ("restocked", "sold", *STREAMS), Inventory)
