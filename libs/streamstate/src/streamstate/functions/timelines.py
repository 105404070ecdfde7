"""The cells of times: histories, hopping and tumbling windows, and sessions. All times are milliseconds."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from streamstate.app import LATE, Count, Effect, Record, Setting
from streamstate.functions.cells import entry
from streamstate.functions.state import Cell, Records
from streamstate.keys import unsortable
from streamstate.operators.pages import Page, TimeEntry
from streamstate.state.operations import Between, ExpireBefore, Insert, Read, Remove
from streamstate.view import MOST_MEMBERS, UserKey

Number = int | float
T = TypeVar("T")


class _Timeline(Cell):
    """A cell kept as a timeline of the family of its name: entries of text and time, for `retention`."""

    _retention: int
    _timeline: str
    _late: int

    def begin(self, key: Any, records: Records) -> None:
        self._timeline, self._late = str(key), 0
        self._open([entry for read in self.loads(key, records) for entry in self._read(read)])

    @abstractmethod
    def _open(self, stored: Sequence[TimeEntry]) -> None:
        """Hold the entries that records of the batch may change."""

    @abstractmethod
    def _changes(self) -> Iterable[Effect]:
        """The operations that store the changed entries."""

    def _page(self, page: Page, shape: Callable[[str, int], T]) -> tuple[Sequence[T], str | None] | None:
        """The entries of the page, each by `shape`, and the cursor of the next page; None for a key without entries."""
        cut = page.cut([self._read(read) for read in page.reads(self._key)])
        return cut and ([shape(*stored) for stored in cut[0]], cut[1])

    def effects(self) -> Iterable[Effect]:
        yield from self._changes()
        if self._late:
            yield Count(LATE, self._late)

    def expiry(self, now: int) -> Iterable[Effect]:
        yield ExpireBefore(self.family, now - self._retention)

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Between(self.place(key), 0, n=MOST_MEMBERS), self.family)


class Entry(NamedTuple):
    """A text of a history, with the offset and the Kafka timestamp of its record."""

    offset: int
    timestamp: int
    text: str


class History(_Timeline):
    """The text of each record by Kafka timestamp, ties by offset, for `retention` of stream time."""

    _entries: dict[str, int]

    def __init__(self, retention: int) -> None:
        self._retention = retention

    def _open(self, _stored: Sequence[TimeEntry]) -> None:
        self._entries = {}

    def add(self, record: Record[Any, Any], text: str) -> None:
        """Add the text of a record."""
        self._entries[entry(self, record, text)] = record.timestamp

    def page(self, page: Page) -> tuple[Sequence[Entry], str | None] | None:
        """The entries of the page, and the cursor of the next page; None for a key without entries. For views."""
        return self._page(page, _entry)

    def _changes(self) -> Iterable[Effect]:
        if self._entries:
            yield Insert(self.family, self._timeline, self._entries)


def _entry(stored: str, time: int) -> Entry:
    place, _, text = stored.partition(" ")
    return Entry(unsortable(place.partition(":")[0]), time, text)


class Summary(msgspec.Struct, array_like=True, frozen=True):
    """The numbers of one key in the window from `start`."""

    start: int
    count: int
    least: Number
    most: Number
    total: Number

    def add(self, number: Number) -> "Summary":
        """Raises `OverflowError` when the total does not fit in 64 bits."""
        least, most, total = min(self.least, number), max(self.most, number), self.total + number
        if not -(2**63) <= total < 2**63:
            msg = "the total of a window would be beyond 64 bits"
            raise OverflowError(msg)
        return Summary(self.start, self.count + 1, least, most, total)


_decode_summary = msgspec.json.Decoder(Summary).decode


class HoppingWindows(_Timeline):
    """Count, least, most and sum of numbers in windows of `size` that start at each multiple of `advance`.

    Tumbling windows for equal values. Stream time is the greatest Kafka timestamp so far, independent of the clock.

    grace: the stream time after its end for which a window takes records.
    retention: the stream time after its start for which a window is kept; at least `size` + `grace`. It is no setting
        of the state, since it only ends windows earlier.
    """

    loading = True
    _current: dict[int, Summary]
    _changed: dict[int, Summary]

    def __init__(self, size: int, advance: int, retention: int, grace: int = 0) -> None:
        if not (0 < advance <= size and grace >= 0 and retention >= size + grace):
            given = f"size={size}, advance={advance}, retention={retention}, grace={grace}"
            msg = f"windows need 0 < advance <= size, grace >= 0 and retention >= size + grace; found {given}"
            raise ValueError(msg)
        self._size, self._advance, self._retention, self._grace = size, advance, retention, grace

    def _open(self, stored: Sequence[TimeEntry]) -> None:
        self._current, self._changed = {start: _decode_summary(text) for text, start in stored}, {}

    def add(self, record: Record[Any, Any], number: Number = 1) -> Sequence[Summary]:
        """Add a number to the windows that contain the timestamp of `record`: the changed windows by start.

        Raises `TypeError` for another type, and `OverflowError` for a total beyond 64 bits.
        """
        added = _number(number)
        # From the start to before the end.
        first = (record.timestamp - self._size) // self._advance * self._advance + self._advance
        starts = range(max(0, first), record.timestamp + 1, self._advance)
        open_starts = [start for start in starts if start + self._size + self._grace > self._clock.now]
        self._late += len(open_starts) < len(starts)
        for start in open_starts:
            before = self._current.get(start)
            after = before.add(added) if before else Summary(start, 1, added, added, added)
            self._current[start] = self._changed[start] = after
        return [self._current[start] for start in open_starts]

    def page(self, page: Page) -> tuple[Sequence[Summary], str | None] | None:
        """The windows of the page, and the cursor of the next page; None for a key without windows. For views."""
        return self._page(page, lambda text, _start: _decode_summary(text))

    def _changes(self) -> Iterable[Effect]:
        if self._changed:
            entries = {msgspec.json.encode(window).decode(): start for start, window in self._changed.items()}
            yield Insert(self.family, self._timeline, entries, instead=True)

    def loads(self, key: Any, records: Records) -> Iterable[Read]:
        if records:
            times = [record.timestamp for record in records]
            start, end = max(0, min(times) - self._size + 1), max(times) + 1
            yield Between(self.place(key), start, end, n=(end - 1 - start) // self._advance + 1)

    @property
    def settings(self) -> Mapping[str, Setting]:
        return {"size_ms": self._size, "advance_ms": self._advance, "grace_ms": self._grace}


def _number(number: Any) -> Number:
    """`number`, of a bool 0 or 1, which is else stored as a word. Raises `TypeError` for another type."""
    if not isinstance(number, int | float):
        msg = f"a number of a window is an int or a float, not {type(number).__name__}"
        raise TypeError(msg)
    return number + 0


class Session(msgspec.Struct, array_like=True, frozen=True):
    """The `count` records of one key from `start` to `end`, the first and last Kafka timestamp."""

    start: int
    end: int
    count: int


_decode_session = msgspec.json.Decoder(Session).decode


class Sessions(_Timeline):
    """Periods of records of a key whose timestamps differ by at most `gap`, so a late record may join two.

    grace: a record more than `gap` + `grace` older than the stream time is counted as late and dropped.
    retention: the stream time after its end for which a session is kept; at least 2 `gap` + `grace`, while a record can
        still join.
    """

    loading = True
    _before: set[Session]
    _after: set[Session]

    def __init__(self, gap: int, retention: int, grace: int = 0) -> None:
        if not (gap > 0 and grace >= 0 and retention >= 2 * gap + grace):
            given = f"gap={gap}, retention={retention}, grace={grace}"
            msg = f"sessions need gap > 0, grace >= 0 and retention >= 2 gap + grace; found {given}"
            raise ValueError(msg)
        self._gap, self._retention, self._grace = gap, retention, grace

    def _open(self, stored: Sequence[TimeEntry]) -> None:
        self._before = {_decode_session(text) for text, _end in stored}
        self._after = self._before.copy()

    def add(self, record: Record[Any, Any]) -> Session | None:
        """Add a record: its session, None for a late record."""
        time = record.timestamp
        if time + self._gap + self._grace < self._clock.now:
            self._late += 1
            return None
        near = {each for each in self._after if each.start - self._gap <= time <= each.end + self._gap}
        joined = [Session(time, time, 1), *near]
        start, end = min(each.start for each in joined), max(each.end for each in joined)
        session = Session(start, end, sum(each.count for each in joined))
        self._after = self._after - near | {session}
        return session

    @property
    def kept(self) -> Sequence[Session]:
        """The sessions by end. For views."""
        return [_decode_session(text) for text, _end in self._read(Between(self._key, 0))]

    def _changes(self) -> Iterable[Effect]:
        for session in self._before - self._after:
            yield Remove(self.family, self._timeline, _text(session))
        if new := self._after - self._before:
            yield Insert(self.family, self._timeline, {_text(session): session.end for session in new})

    def loads(self, key: Any, records: Records) -> Iterable[Read]:
        if records:
            yield Between(self.place(key), min(record.timestamp for record in records) - self._gap)

    @property
    def settings(self) -> Mapping[str, Setting]:
        return {"gap_ms": self._gap, "grace_ms": self._grace}


def _text(session: Session) -> str:
    return msgspec.json.encode(session).decode()
