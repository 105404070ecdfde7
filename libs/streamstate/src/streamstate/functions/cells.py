"""The cells of numbers, texts, rankings and lists."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamstate.app import Effect, Record, Setting
from streamstate.functions.state import Cell, Records
from streamstate.keys import KeyCodec, sortable
from streamstate.state.operations import (
    MOST,
    Delete,
    Field,
    Fields,
    IncrementScores,
    Merge,
    Newest,
    PushRecent,
    Put,
    Read,
    Top,
    Value,
)
from streamstate.view import MOST_MEMBERS, UserKey


def _whole(number: Any) -> int:
    """`number`. Raises `TypeError` for a fraction, and `OverflowError` beyond ±2^53.

    Of each number, not of a batch's sum: a record is accepted or refused with any other records.
    """
    if not isinstance(number, int):
        msg = f"a number of a state is an int, not {type(number).__name__}; scale fractions: 1.5 to 150 hundredths"
        raise TypeError(msg)
    if not -MOST <= number <= MOST:
        msg = f"a number of a state is at most {MOST}, up to which numbers are exact"
        raise OverflowError(msg)
    return int(number)


def _text(text: Any) -> str:
    """`text`. Raises `TypeError` for another type, which a later batch would read as text."""
    if not isinstance(text, str):
        msg = f"a text of a state is a str, not {type(text).__name__}"
        raise TypeError(msg)
    return text


def entry(cell: Cell, record: Record[Any, Any], text: Any) -> str:
    """The text of a record, behind its offset, which distinguishes equal texts and orders the texts of a moment."""
    of_topic = cell.state.source is None or record.topic == cell.state.source.own_name
    place = sortable(record.offset) if of_topic else f"{sortable(record.offset)}:{record.topic}"
    return f"{place} {_text(text)}"


class _Number(Cell):
    """A whole number up to 2^53: a field of the hash that the numbers of a key share."""

    shares = True
    _number: int | None

    def place(self, key: Any) -> str:
        return self.state.place(self.state.title(), key)

    def begin(self, _key: Any, _records: Records) -> None:
        self._number = None

    @property
    def value(self) -> int | None:
        """The number, None before the first write. For views."""
        number: int | None = self._read(Field(self._key, self.name))
        return number

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Fields(self.place(key)))


class Sum(_Number):
    """A sum of whole numbers."""

    summed = True

    def add(self, number: int = 1) -> None:
        """Add a number."""
        self._number = (self._number or 0) + _whole(number)

    def effects(self) -> Iterable[Effect]:
        if self._number is not None:
            yield Merge(self._key, add={self.name: self._number})


class Least(_Number):
    """The least of whole numbers."""

    def add(self, number: int) -> None:
        """Keep a number that is less than all others."""
        whole = _whole(number)
        self._number = whole if self._number is None else min(self._number, whole)

    def effects(self) -> Iterable[Effect]:
        if self._number is not None:
            yield Merge(self._key, least={self.name: self._number})


class Most(_Number):
    """The greatest of whole numbers."""

    def add(self, number: int) -> None:
        """Keep a number that is greater than all others."""
        whole = _whole(number)
        self._number = whole if self._number is None else max(self._number, whole)

    def effects(self) -> Iterable[Effect]:
        if self._number is not None:
            yield Merge(self._key, most={self.name: self._number})


class Counters(Cell):
    """Sums of whole numbers by text, such as the clicks of each region. The cell's name is the key of `Totals`.

    texts: the type of the texts. A fold raises `BadRecord` for a text of another type, so its record is a dead letter.
    """

    summed = True
    _by: Counter[str]

    def __init__(self, texts: KeyCodec[str] | None = None) -> None:
        self._texts = texts

    def begin(self, _key: Any, _records: Records) -> None:
        self._by = Counter()

    def add(self, text: str, number: int = 1) -> None:
        """Add to the sum of `text`."""
        if text not in self._by:
            raw = _text(text).encode()
            if self._texts:
                self._texts.decode(raw)
        self._by[text] += _whole(number)

    def get(self, text: str) -> int | None:
        """The sum of `text`, None before the first write. For views."""
        number: int | None = self._read(Field(self._key, text))
        return number

    def all(self) -> Mapping[str, int]:
        """The sums by text. For views."""
        numbers: Mapping[str, int] = self._read(Fields(self._key))
        return numbers

    def effects(self) -> Iterable[Effect]:
        if self._by:
            yield Merge(self._key, add=dict(self._by))

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Fields(self.place(key)))


class Ranking(Cell):
    """Texts in the order of their sums. n: the length of the list of an answer."""

    _by: Counter[str]

    def __init__(self, n: int) -> None:
        self._n = n

    def begin(self, _key: Any, _records: Records) -> None:
        self._by = Counter()

    def add(self, text: str, number: int = 1) -> None:
        """Add to the sum of `text`."""
        self._by[_text(text)] += _whole(number)

    def top(self) -> Sequence[tuple[str, int]]:
        """The texts with the greatest sums, ties by text, and the sums. For views."""
        members: Sequence[tuple[str, int]] = self._read(Top(self._key, self._n))
        return members

    def effects(self) -> Iterable[Effect]:
        if self._by:
            yield IncrementScores(self._key, dict(self._by))

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Top(self.place(key), MOST_MEMBERS))


class Text(Cell):
    """One text. loaded: whether folds may read the text."""

    _written: tuple[str | None, ...]

    def __init__(self, *, loaded: bool = False) -> None:
        self.loading = loaded

    def begin(self, _key: Any, _records: Records) -> None:
        self._written = ()

    def set(self, text: str | None) -> None:
        """Replace the text; None deletes."""
        self._written = (None if text is None else _text(text),)

    @property
    def value(self) -> str | None:
        """The text, None for a missing text. For views, and for folds with `loaded`."""
        # Without `loaded` a fold would read only what the same batch has written.
        if self._written and self.loading:
            return self._written[0]
        text: str | None = self._read(Value(self._key))
        return text

    def effects(self) -> Iterable[Effect]:
        for text in self._written:
            yield Delete(self._key) if text is None else Put(self._key, text)

    def loads(self, key: Any, _records: Records) -> Iterable[Read]:
        yield Value(self.place(key))

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Value(self.place(key)))


class Recent(Cell):
    """The newest `n` texts by time, ties by offset."""

    _members: dict[str, int]

    def __init__(self, n: int) -> None:
        self._n = n

    def begin(self, _key: Any, _records: Records) -> None:
        self._members = {}

    def add(self, record: Record[Any, Any], text: str, time: int) -> None:
        """Add the text of a record at `time` (milliseconds)."""
        self._members[entry(self, record, text)] = _whole(time)

    def newest(self) -> Sequence[tuple[str, int]]:
        """The texts and their times, newest first. For views."""
        return [(member.partition(" ")[2], time) for member, time in self._read(Newest(self._key, self._n))]

    def effects(self) -> Iterable[Effect]:
        if self._members:
            newest = sorted(self._members.items(), key=lambda entry: (entry[1], entry[0]))[-self._n :]
            yield PushRecent(self._key, dict(newest), self._n)

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Newest(self.place(key), MOST_MEMBERS))

    @property
    def settings(self) -> Mapping[str, Setting]:
        return {"n": self._n}
