"""Pages of a timeline: the parameters of a request, the reads, and the start of the next page."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from streamstate.state.operations import Between, Read
from streamstate.view import TIME

MOST_TIME = 2**53
PAGE_BYTES = 2**20
"""A page ends after the entry with which its texts reach so many bytes."""

_CURSOR = r"^[0-9]{1,16}\.[0-9]{1,9}$"

Order = Annotated[Literal["asc", "desc"], Meta(description="ascending, or descending: the newest first")]
Time = Annotated[int, Meta(ge=0, le=MOST_TIME, extra=TIME)]
TimeEntry = tuple[str, int]
"""A text of a timeline and its time."""


class Page(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The parameters of a view over a timeline. Times are milliseconds since 1970, or ISO 8601."""

    from_: Annotated[Time, Meta(description="the first time, inclusive, in milliseconds since 1970 or ISO 8601")] = 0
    to: Annotated[Time, Meta(description="the end of the times, exclusive, likewise")] = MOST_TIME
    order: Order = "asc"
    limit: Annotated[int, Meta(ge=1, le=1_000, description="most entries of one answer")] = 100
    cursor: Annotated[
        Annotated[str, Meta(pattern=_CURSOR)] | None,
        Meta(description="`next` of the previous answer, with otherwise unchanged parameters"),
    ] = None

    def reads(self, key: str) -> Sequence[Read]:
        """For `cut`: the entries of the page of the timeline `key` and one more, and the first entry of all."""
        time, skip = self._start()
        descending = self.order == "desc"
        first, end = (self.from_, min(time + 1, self.to)) if descending else (max(time, self.from_), self.to)
        return [Between(key, first, end, self.limit + 1, skip, PAGE_BYTES, descending), Between(key, 0, n=1)]

    def cut(self, values: Sequence[Sequence[TimeEntry]]) -> tuple[Sequence[TimeEntry], str | None] | None:
        """The entries of the page and the cursor of the next page (None: the last page), from the values of `reads`.

        None for a timeline without any entry. A page of many bytes ends early; the next page may be empty.
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
        """The cursor's time, and the number of entries of the same time on earlier pages."""
        if self.cursor is None:
            return (MOST_TIME if self.order == "desc" else 0), 0
        time, _, skip = self.cursor.partition(".")
        return int(time), int(skip)
