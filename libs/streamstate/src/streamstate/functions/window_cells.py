"""The cells of times: histories, hopping and tumbling windows, and sessions. All times are milliseconds."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streamstate.app import Effect, Record, Setting
from streamstate.functions.cells import entry
from streamstate.functions.state import Cell, Records
from streamstate.keys import unsortable
from streamstate.operators.pages import Page, TimeEntry
from streamstate.operators.session_windows import KeySessions, Session, SessionWindows, sessions
from streamstate.operators.windows import KeyWindows, Number, Summary, Windows, summaries
from streamstate.state.operations import Between, ExpireBefore, Insert, Read
from streamstate.view import MOST_MEMBERS, UserKey


class _Timeline(Cell):
    """A cell kept as a timeline of the family of its name, for `retention`."""

    _retention: int
    _timeline: str

    def begin(self, key: Any, records: Records) -> None:
        self._timeline = str(key)
        self._open([entry for read in self.loads(key, records) for entry in self._read(read)])

    @abstractmethod
    def _open(self, stored: Sequence[TimeEntry]) -> None:
        """Hold the entries that records of the batch may change."""

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
        cut = page.cut([self._read(read) for read in page.reads(self._key)])
        return cut and ([_entry(*stored) for stored in cut[0]], cut[1])

    def effects(self) -> Iterable[Effect]:
        if self._entries:
            yield Insert(self.family, self._timeline, self._entries)


def _entry(stored: str, time: int) -> Entry:
    place, _, text = stored.partition(" ")
    return Entry(unsortable(place.partition(":")[0]), time, text)


class HoppingWindows(_Timeline):
    """Count, least, most and sum of numbers in windows of `size` that start at each multiple of `advance`.

    As `operators.windows.Windows`.
    """

    loading = True
    _of_key: KeyWindows

    def __init__(self, size: int, advance: int, retention: int, grace: int = 0) -> None:
        self._windows, self._retention = Windows(size, advance, retention, grace), retention

    def _open(self, stored: Sequence[TimeEntry]) -> None:
        self._of_key = KeyWindows(self._windows, stored)

    def add(self, record: Record[Any, Any], number: Number = 1) -> Sequence[Summary]:
        """Add a number to the windows that contain the timestamp of `record`: the changed windows.

        Raises `TypeError` for another type, and `OverflowError` for a total beyond 64 bits.
        """
        return self._of_key.add(record.timestamp, _number(number), self._clock.now)

    def page(self, page: Page) -> tuple[Sequence[Summary], str | None] | None:
        """The windows of the page, and the cursor of the next page; None for a key without windows. For views."""
        cut = page.cut([self._read(read) for read in page.reads(self._key)])
        return cut and (summaries(cut[0]), cut[1])

    def effects(self) -> Iterable[Effect]:
        return self._of_key.effects(self.family, self._timeline)

    def loads(self, key: Any, records: Records) -> Iterable[Read]:
        if records:
            times = [record.timestamp for record in records]
            yield self._windows.read(self.place(key), min(times), max(times))

    @property
    def settings(self) -> Mapping[str, Setting]:
        return self._windows.settings


def _number(number: Any) -> Number:
    """`number`, of a bool 0 or 1, which is else stored as a word. Raises `TypeError` for another type."""
    if not isinstance(number, int | float):
        msg = f"a number of a window is an int or a float, not {type(number).__name__}"
        raise TypeError(msg)
    return number + 0


class Sessions(_Timeline):
    """Periods of records without a pause longer than `gap`. As `operators.session_windows.SessionWindows`."""

    loading = True
    _of_key: KeySessions

    def __init__(self, gap: int, retention: int, grace: int = 0) -> None:
        self._windows, self._retention = SessionWindows(gap, retention, grace), retention

    def _open(self, stored: Sequence[TimeEntry]) -> None:
        self._of_key = KeySessions(self._windows, stored)

    def add(self, record: Record[Any, Any]) -> Session | None:
        """Add a record: its session, None for a late record."""
        return self._of_key.add(record.timestamp, self._clock.now)

    @property
    def kept(self) -> Sequence[Session]:
        """The sessions by end. For views."""
        return sessions(self._read(Between(self._key, 0)))

    def effects(self) -> Iterable[Effect]:
        return self._of_key.effects(self.family, self._timeline)

    def loads(self, key: Any, records: Records) -> Iterable[Read]:
        if records:
            yield self._windows.read(self.place(key), min(record.timestamp for record in records))

    @property
    def settings(self) -> Mapping[str, Setting]:
        return {"gap_ms": self._windows.gap, "grace_ms": self._windows.grace}
