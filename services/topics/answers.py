"""What is answered of a topic's keys."""

from collections.abc import Sequence

import msgspec

from streamstate.keys import unsortable
from streamstate.operators.pages import Page, TimeEntry
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
    """Records of a key in order of time; `next` is the cursor of the next page, null on the last one."""

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
    """Windows of a key in order of time; `next` is the cursor of the next page, null on the last one."""

    key: int | str
    windows: list[NumberWindow]
    next: str | None


def history(key: int | str, entries: Sequence[TimeEntry], page: Page) -> History:
    """From the entries of a timeline: sortable offset and value."""
    some, following = page.cut(entries)
    records = []
    for text, timestamp in some:
        offset, _, value = text.partition(" ")
        records.append(HistoryRecord(msgspec.Raw(value), unsortable(offset), timestamp))
    return History(key, records, following)


def windows(key: int | str, entries: Sequence[TimeEntry], page: Page, size: int) -> NumberWindows:
    """From the entries of windows that are `size` milliseconds long."""
    some, following = page.cut(entries)
    found = [
        NumberWindow(one.start, one.start + size, one.count, one.least, one.most, one.total) for one in summaries(some)
    ]
    return NumberWindows(key, found, following)
