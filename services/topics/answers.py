"""Answers about a topic's keys."""

from collections.abc import Sequence
from typing import Any

import msgspec

from streamstate.keys import unsortable
from streamstate.operators.pages import Page
from streamstate.operators.windows import Number, summaries


class Latest(msgspec.Struct):
    """The last value of a key: JSON, text, or bytes in base64; `timestamp` is Kafka's, in milliseconds."""

    key: int | str
    value: msgspec.Raw
    offset: int
    timestamp: int


class HistoryRecord(msgspec.Struct):
    """A record; the value of a tombstone is null."""

    value: msgspec.Raw
    offset: int
    timestamp: int


class History(msgspec.Struct):
    """Records of a key in the order of the request; `next` is the cursor of the next page, null on the last page."""

    key: int | str
    records: list[HistoryRecord]
    next: str | None


class NumberWindow(msgspec.Struct):
    """The numbers of a key from `start` to before `end` (milliseconds since 1970)."""

    start: int
    end: int
    count: int
    min: Number
    max: Number
    sum: Number


class NumberWindows(msgspec.Struct):
    """Windows of a key in the order of the request; `next` is the cursor of the next page, null on the last page."""

    key: int | str
    windows: list[NumberWindow]
    next: str | None


_TIME = 1_767_297_600_000
"""The second of January 2026, 20:00 (UTC)."""
LATEST = Latest("anna", msgspec.Raw(b'{"status": "shipped"}'), 17, _TIME)
HISTORY = History("anna", [HistoryRecord(msgspec.Raw(b'{"status": "paid"}'), 4, _TIME)], None)
WINDOWS = NumberWindows("anna", [NumberWindow(_TIME, _TIME + 60_000, count=2, min=1.5, max=3, sum=4.5)], None)


def history(key: int | str, values: Sequence[Any], page: Page) -> History | None:
    """A page of the history, from entries of sortable offset and value; None for a key without history."""
    if (cut := page.cut(values)) is None:
        return None
    entries, following = cut
    records = []
    for text, timestamp in entries:
        offset, _, value = text.partition(" ")
        records.append(HistoryRecord(msgspec.Raw(value), unsortable(offset), timestamp))
    return History(key, records, following)


def windows(key: int | str, values: Sequence[Any], page: Page, *, size: int) -> NumberWindows | None:
    """A page of the windows of `size` milliseconds; None for a key without windows."""
    if (cut := page.cut(values)) is None:
        return None
    entries, following = cut
    numbers = [NumberWindow(w.start, w.start + size, w.count, w.least, w.most, w.total) for w in summaries(entries)]
    return NumberWindows(key, numbers, following)
