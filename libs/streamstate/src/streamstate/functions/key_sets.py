"""The cell of a set of keys, and its pages in the order of the keys, over all partitions."""

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from streamstate.app import Effect
from streamstate.functions.state import Cell, Records
from streamstate.keys import LONG_MAX, TEXT_MAX_BYTES, KeyCodec, Number, sortable, unsortable
from streamstate.operators.pages import Order
from streamstate.state.operations import Members, Operation, UpdateIndex
from streamstate.view import UserKey

Key = int | str
Span = tuple[str, str]
"""The first member of a range, and the first member after the range; empty: to the end."""

_SURROGATES, _BEHIND_SURROGATES = 0xD800, 0xE000
"""No text contains surrogates."""

_Number = Annotated[int, Meta(ge=0, le=LONG_MAX)]
_Text = Annotated[str, Meta(max_length=TEXT_MAX_BYTES)]

_FROM = Meta(description="the first key that is wanted")
_TO = Meta(description="the first key that is not wanted any more; to the end without it")
_CURSOR = Meta(description="`next` of the previous answer, with otherwise unchanged parameters")


class Keys(msgspec.Struct):
    """Keys with a value, in the order of the request; `next` is the cursor of the next page, null on the last page."""

    keys: list[Key]
    next: Key | None


class _Paged(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    order: Order = "asc"
    limit: Annotated[int, Meta(ge=1, le=1_000, description="most keys of one answer")] = 100


class NumberRange(_Paged, frozen=True):
    """A range of number keys."""

    from_: Annotated[_Number, _FROM] = 0
    to: Annotated[_Number | None, _TO] = None
    cursor: Annotated[_Number | None, _CURSOR] = None

    @property
    def span(self) -> Span:
        return _member(self.from_), "" if self.to is None else _member(self.to)


class TextRange(_Paged, frozen=True):
    """A range of text keys, in the order of their bytes."""

    prefix: Annotated[_Text, Meta(description="what the keys begin with")] = ""
    from_: Annotated[_Text, _FROM] = ""
    to: Annotated[_Text, _TO] = ""
    cursor: Annotated[_Text | None, _CURSOR] = None

    @property
    def span(self) -> Span:
        return max(self.prefix, self.from_), _first(behind(self.prefix), self.to)


KeyRange = NumberRange | TextRange


def key_range(keys: KeyCodec[Any]) -> type[KeyRange]:
    """The parameters of a range of keys of a type."""
    return NumberRange if isinstance(keys, Number) else TextRange


class KeySet(Cell):
    """The keys added and not removed since, of all partitions: numbers in their order, texts in that of their bytes."""

    summed = True
    _members: dict[str, bool]

    def begin(self, _key: Any, _records: Records) -> None:
        self._members = {}

    def add(self, key: Key) -> None:
        """Add a key."""
        self._members[_member(key)] = True

    def remove(self, key: Key) -> None:
        """Remove a key."""
        self._members[_member(key)] = False

    def page(self, asked: KeyRange) -> Keys:
        """The first keys of a range. For views. A cursor is a key, so every key comes once however partitions move."""
        (start, end), descending = asked.span, asked.order == "desc"
        if asked.cursor is not None:
            last = _member(asked.cursor)
            start, end = (start, _first(end, last)) if descending else (max(start, last + "\0"), end)
        members = self._read(Members(self._key, start, end, asked.limit + 1, descending))
        page: list[Key] = [*members[: asked.limit]]
        if isinstance(asked, NumberRange):
            page = [unsortable(member) for member in members[: asked.limit]]
        return Keys(page, page[-1] if len(members) > asked.limit else None)

    def effects(self) -> Iterable[Effect]:
        if self._members:
            added = [member for member, present in self._members.items() if present]
            removed = [member for member, present in self._members.items() if not present]
            yield UpdateIndex(self._key, add=added, remove=removed)

    def places(self, _key: Any) -> Iterable[UserKey]:
        return ()

    def forgotten(self, users: Iterable[Any]) -> Iterable[Operation]:
        yield UpdateIndex(self.place(""), add=[], remove=[*map(_member, users)])


def _member(key: Key) -> str:
    return sortable(key) if isinstance(key, int) else key


def behind(prefix: str) -> str:
    """The first text after all texts with `prefix`, empty without such a text."""
    rest = prefix.rstrip(chr(sys.maxunicode))
    if not rest:
        return ""
    following = ord(rest[-1]) + 1
    return rest[:-1] + chr(_BEHIND_SURROGATES if following == _SURROGATES else following)


def _first(*ends: str) -> str:
    """The first of `ends`; an empty end is the last."""
    return min(filter(None, ends), default="")
