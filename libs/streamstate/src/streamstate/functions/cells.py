"""The cells of numbers, texts, rankings and lists."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from streamstate.app import Effect, Record
from streamstate.functions.state import Cell, Records
from streamstate.keys import KeyCodec, sortable
from streamstate.state.operations import (
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


def _whole(numbers: dict[str, int]) -> dict[str, int]:
    """The numbers. Raises `TypeError` for a number that is not whole, such as a sum with a fraction."""
    if any(type(number) is not int for number in numbers.values()):
        msg = "a number of a state is an int; scale fractions, such as 1.5 to 150 hundredths"
        raise TypeError(msg)
    return numbers


class _Number(Cell):
    """A whole number up to 2^53: a field of the hash that the numbers of a key share."""

    shares = True
    _hash: str
    _number: int | None

    def place(self, key: Any) -> str:
        return self.state.place(self.state.title(), key)

    def begin(self, key: Any, _records: Records) -> None:
        self._hash, self._number = self.place(key), None

    @property
    def value(self) -> int | None:
        """The number, None before the first write. For views."""
        number: int | None = self._read(Field(self._hash, self.name))
        return number

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Fields(self.place(key)))


class Sum(_Number):
    """A sum of whole numbers."""

    def add(self, number: int = 1) -> None:
        """Add a number."""
        self._number = (self._number or 0) + number

    def effects(self) -> Iterable[Effect]:
        if self._number is not None:
            yield Merge(self._hash, add=_whole({self.name: self._number}))


class Least(_Number):
    """The least of whole numbers."""

    def add(self, number: int) -> None:
        """Keep a number that is less than all others."""
        self._number = number if self._number is None else min(self._number, number)

    def effects(self) -> Iterable[Effect]:
        if self._number is not None:
            yield Merge(self._hash, least=_whole({self.name: self._number}))


class Most(_Number):
    """The greatest of whole numbers."""

    def add(self, number: int) -> None:
        """Keep a number that is greater than all others."""
        self._number = number if self._number is None else max(self._number, number)

    def effects(self) -> Iterable[Effect]:
        if self._number is not None:
            yield Merge(self._hash, most=_whole({self.name: self._number}))


class Counters(Cell):
    """Sums of whole numbers by text, such as the clicks of each region. The cell's name is the key of `Totals`.

    texts: the type of the texts. A fold raises `BadRecord` for a text of another type, so its record is a dead letter.
    """

    _by: Counter[str]
    _key: str

    def __init__(self, texts: KeyCodec[str] | None = None) -> None:
        self._texts = texts

    def begin(self, key: Any, _records: Records) -> None:
        self._key, self._by = self.place(key), Counter()

    def add(self, text: str, number: int = 1) -> None:
        """Add to the sum of `text`."""
        if self._texts and text not in self._by:
            self._texts.decode(text.encode())
        self._by[text] += number

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
            yield Merge(self._key, add=_whole(dict(self._by)))

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Fields(self.place(key)))


class Ranking(Cell):
    """Texts in the order of their sums. n: the length of the list of an answer."""

    _by: Counter[str]
    _key: str

    def __init__(self, n: int) -> None:
        self._n = n

    def begin(self, key: Any, _records: Records) -> None:
        self._key, self._by = self.place(key), Counter()

    def add(self, text: str, number: int = 1) -> None:
        """Add to the sum of `text`."""
        self._by[text] += number

    def top(self) -> Sequence[tuple[str, int]]:
        """The texts with the greatest sums, ties by text, and the sums. For views."""
        members: Sequence[tuple[str, int]] = self._read(Top(self._key, self._n))
        return members

    def effects(self) -> Iterable[Effect]:
        if self._by:
            yield IncrementScores(self._key, _whole(dict(self._by)))

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Top(self.place(key), MOST_MEMBERS))


class Text(Cell):
    """One text. loaded: whether folds may read the text."""

    _key: str
    _written: tuple[str | None, ...]

    def __init__(self, *, loaded: bool = False) -> None:
        self.loading = loaded

    def begin(self, key: Any, _records: Records) -> None:
        self._key, self._written = self.place(key), ()

    def set(self, text: str | None) -> None:
        """Replace the text; None deletes."""
        self._written = (text,)

    @property
    def value(self) -> str | None:
        """The text, None for a missing text."""
        if self._written:
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

    _key: str
    _members: dict[str, int]

    def __init__(self, n: int) -> None:
        self._n = n

    def begin(self, key: Any, _records: Records) -> None:
        self._key, self._members = self.place(key), {}

    def add(self, record: Record[Any, Any], text: str, time: int) -> None:
        """Add the text of a record at `time` (milliseconds)."""
        # The offset distinguishes equal texts, and orders the texts of a moment.
        self._members[f"{sortable(record.offset)} {text}"] = time

    def newest(self) -> Sequence[tuple[str, int]]:
        """The texts and their times, newest first. For views."""
        return [(member.partition(" ")[2], time) for member, time in self._read(Newest(self._key, self._n))]

    def effects(self) -> Iterable[Effect]:
        if self._members:
            newest = sorted(self._members.items(), key=lambda entry: (entry[1], entry[0]))[-self._n :]
            yield PushRecent(self._key, dict(newest), self._n)

    def places(self, key: Any) -> Iterable[UserKey]:
        yield UserKey(Newest(self.place(key), MOST_MEMBERS))
