"""Compaction of a partition's files: small files are joined, and records of deleted users are left out."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamstate.errors import StreamStateError
from streamstate.history.archive.files import Archive, Archived, Place
from streamstate.history.archive.planning import joins
from streamstate.history.archive.segments import FILE_BYTES, Segment, covered, superseded

Erased = Mapping[bytes, int]
"""The keys of deleted users, and the offset before which their records are deleted."""


class Outcome(NamedTuple):
    """The number of joined, rewritten or deleted files, and of records left out."""

    files: int = 0
    left_out: int = 0


def compact(archive: Archive, place: Place, erased: Erased, file_bytes: int = FILE_BYTES) -> Outcome:
    """Compact the files of a partition.

    Readers and writers may run: a file is deleted only when a complete file has its offsets. After a kill, the next
    call goes on.
    """
    gone = superseded(archive.segments(place))
    archive.delete(place, gone)
    archive.delete_unfinished(place)
    rewritten, left_out = len(gone), 0
    for group in joins(archive.files(place), file_bytes):
        rewritten += len(group)
        segment = Segment(group[0].segment.first, max(each.segment.last for each in group))
        rows = archive.read(place, segment.first, segment.last + 1)
        left_out += _rewrite(archive, place, segment, rows, erased)
        # The files of the group hold the records of deleted users.
        archive.delete(place, {each.segment for each in group} - {segment})
    for file in archive.files(place):
        if holds(archive, place, file, erased):
            rewritten += 1
            left_out += _rewrite(archive, place, file.segment, archive.rows(place, file.segment), erased)
    return Outcome(rewritten, left_out)


def planned(archive: Archive, place: Place, erased: Erased, file_bytes: int = FILE_BYTES) -> Outcome:
    """The number of files that `compact` would join, rewrite or delete; records are not counted."""
    files = archive.files(place)
    gone = set(superseded(each.segment for each in files))
    joined = {each for group in joins(files, file_bytes) for each in group}
    return Outcome(sum(each.segment in gone or each in joined or holds(archive, place, each, erased) for each in files))


def holds(archive: Archive, place: Place, file: Archived, erased: Erased) -> bool:
    """Whether a file has records of deleted users."""
    here = {key: before for key, before in erased.items() if before > file.segment.first}
    rows = archive.rows(place, file.segment, ["key"]) if here else ()
    return any(without(batch, here).num_rows < batch.num_rows for batch in rows)


def without(batch: pa.RecordBatch, erased: Erased) -> pa.RecordBatch:
    """The rows that are no records of deleted users."""
    if not erased:
        return batch
    found = pc.is_in(batch["key"], value_set=pa.array([*erased], pa.binary())).to_numpy(zero_copy_only=False)
    offsets, keys = batch["offset"], batch["key"]
    for row in np.flatnonzero(found).tolist():
        found[row] = offsets[row].as_py() < erased[keys[row].as_py()]
    return batch.filter(pa.array(~found)) if found.any() else batch


def _rewrite(archive: Archive, place: Place, segment: Segment, rows: Iterable[pa.RecordBatch], erased: Erased) -> int:
    """Write the file of `segment` from `rows`; returns the number of records left out."""
    topic_id, left_out = archive.topic_id(place) or "", 0

    def kept() -> Iterator[pa.RecordBatch]:
        nonlocal left_out
        for batch in rows:
            made = without(batch, erased)
            left_out += batch.num_rows - made.num_rows
            yield made

    with archive.writing(place, topic_id) as file:
        for batch in kept():
            file.add(batch)
        if covered(archive.segments(place), segment.first) <= segment.last:
            msg = f"files of {place[0]}:{place[1]} went away during the compaction; run it again"
            raise StreamStateError(msg)
        file.keep(segment.name)
    return left_out
