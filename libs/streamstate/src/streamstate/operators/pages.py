"""Pages of a timeline: the parameters of a request, what is read for them, and where the next page begins."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from streamstate.state.operations import Between, Read

MOST_TIME = 2**53
PAGE_BYTES = 2**20
"""A page ends with the entry with which its texts have so many bytes."""

_CURSOR = r"^[0-9]{1,16}\.[0-9]{1,9}$"

Order = Annotated[Literal["asc", "desc"], Meta(description="ascending, or descending: the newest first")]
Time = Annotated[int, Meta(ge=0, le=MOST_TIME)]
TimeEntry = tuple[str, int]
"""A text of a timeline and its time."""


class Page(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The parameters of a view over a timeline. Times are milliseconds since 1970."""

    from_: Annotated[Time, Meta(description="the first time that is wanted")] = 0
    to: Annotated[Time, Meta(description="the first time that is not wanted any more")] = MOST_TIME
    order: Order = "asc"
    limit: Annotated[int, Meta(ge=1, le=1_000, description="most entries of one answer")] = 100
    cursor: Annotated[
        Annotated[str, Meta(pattern=_CURSOR)] | None,
        Meta(description="`next` of the answer before; the other parameters stay as they were"),
    ] = None

    def reads(self, key: str) -> Sequence[Read]:
        """For `cut`: the entries of this page of the timeline `key` and one more, and the first entry of all."""
        time, skip = self._start()
        descending = self.order == "desc"
        first, end = (self.from_, min(time + 1, self.to)) if descending else (max(time, self.from_), self.to)
        return [Between(key, first, end, self.limit + 1, skip, PAGE_BYTES, descending), Between(key, 0, n=1)]

    def cut(self, values: Sequence[Sequence[TimeEntry]]) -> tuple[Sequence[TimeEntry], str | None] | None:
        """The entries of this page and the cursor of the next one (None: there is none), from the answers to `reads`.

        None for a timeline without any entry. A page of many bytes ends early; the one behind it may be empty.
        """
        entries, first = values
        if not first:
            return None
        page = entries[: self.limit]
        if len(entries) == len(page) and sum(len(text.encode()) for text, _ in page) < PAGE_BYTES:
            return page, None
        last = page[-1][1]
        time, skip = self._start()
        seen = sum(at == last for _, at in page) + (skip if last == time else 0)
        return page, f"{last}.{seen}"

    def _start(self) -> tuple[int, int]:
        """The cursor's time, and how many entries of that time came before."""
        if self.cursor is None:
            return (MOST_TIME if self.order == "desc" else 0), 0
        time, _, skip = self.cursor.partition(".")
        return int(time), int(skip)
