"""Segments: ranges of offsets of one partition, each a file. The names of the files are the archive's only index."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

FILE_BYTES = 128 << 20
"""The size of a full file."""

_NAME = re.compile(r"([0-9]{20})-([0-9]{20})\.parquet")


class Segment(NamedTuple):
    """All records of a partition with offsets from `first` to `last`, both included.

    Offsets may lack a record: aborted transactions, markers of transactions, and compaction leave such offsets.
    """

    first: int
    last: int

    @property
    def name(self) -> str:
        """The file's name. Names sort by offset."""
        return f"{self.first:020}-{self.last:020}.parquet"


class Section(NamedTuple):
    """The part of `segment` from `start` on, before `stop`."""

    segment: Segment
    start: int
    stop: int


def named(name: str) -> Segment | None:
    """The segment of a file with this name; None for a file of another kind."""
    found = _NAME.fullmatch(name)
    return Segment(int(found[1]), int(found[2])) if found else None


def covered(segments: Iterable[Segment], start: int) -> int:
    """The first offset from `start` on that no segment has."""
    return max((section.stop for section in sections(segments, start)), default=start)


def sections(segments: Iterable[Segment], start: int, stop: int | None = None) -> Iterator[Section]:
    """The sections that give each offset from `start` on once, before `stop` or the first offset without a segment.

    Of overlapping segments, the segment that reaches furthest is taken: two writers may have written one range, and
    compaction joins segments before it deletes the parts.
    """
    reaching: Segment | None = None
    ordered = sorted(segment for segment in segments if segment.last >= start)
    for segment in [*ordered, None]:
        if reaching and (segment is None or segment.first > start):
            end = reaching.last + 1 if stop is None else min(stop, reaching.last + 1)
            if end <= start:
                return
            yield Section(reaching, start, end)
            start = end
        if segment is None or segment.first > start:
            return
        if reaching is None or segment.last > reaching.last:
            reaching = segment


def gaps(segments: Iterable[Segment]) -> list[Segment]:
    """The offsets between two segments without a segment of their own."""
    found: list[Segment] = []
    reached: int | None = None
    for segment in sorted(segments):
        if reached is not None and segment.first > reached:
            found.append(Segment(reached, segment.first - 1))
        reached = max(reached or 0, segment.last + 1)
    return found


def superseded(segments: Iterable[Segment]) -> list[Segment]:
    """The segments whose offsets all belong to one further segment too."""
    found, reached = [], -1
    for segment in sorted(set(segments), key=lambda each: (each.first, -each.last)):
        if segment.last <= reached:
            found.append(segment)
        reached = max(reached, segment.last)
    return found
