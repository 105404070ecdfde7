"""Compaction of a partition's files: small files are joined, and records of deleted users are left out.

Of a deleted user's record in a derived topic, the marker stays: see `EMPTIED`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamstate.errors import StreamStateError
from streamstate.history.archive.files import EMPTIED, SCHEMA, Archive, Archived, Place
from streamstate.history.archive.planning import joins
from streamstate.history.archive.segments import FILE_BYTES, Segment, superseded
from streamstate.keys import MARKER_HEADER, Marker

Erased = Mapping[bytes, int]
"""The keys of deleted users, and the offset before which their records are deleted."""

Sent = Mapping[tuple[str, int], Erased]
"""By id and partition of a topic with users in the values, the deleted users whose records a stream sent again."""

_NONE: Sent = {}


class Outcome(NamedTuple):
    """The number of joined, rewritten or deleted files, and of records left out or emptied."""

    files: int = 0
    left_out: int = 0


def compact(
    archive: Archive, place: Place, erased: Erased, file_bytes: int = FILE_BYTES, sent: Sent = _NONE
) -> Outcome:
    """Compact the files of a partition. sent: the records, by marker, that are left out wherever they are.

    Readers and writers may run: a file is deleted only when a complete file has its offsets. After a kill, the next
    call goes on. Raises `StreamStateError`, or `FileNotFoundError`, when another compaction was faster.
    """
    gone = superseded(archive.segments(place))
    archive.delete(place, gone)
    archive.delete_unfinished(place)
    rewritten, left_out = len(gone), 0
    for group in joins(archive.files(place), file_bytes):
        rewritten += len(group)
        left_out += _rewrite(archive, place, group, erased, sent)
    for file in archive.files(place):
        if holds(archive, place, file, erased, sent):
            rewritten += 1
            left_out += _rewrite(archive, place, [file], erased, sent)
    return Outcome(rewritten, left_out)


def planned(
    archive: Archive, place: Place, erased: Erased, file_bytes: int = FILE_BYTES, sent: Sent = _NONE
) -> Outcome:
    """The number of files that `compact` would join, rewrite or delete; records are not counted."""
    files = archive.files(place)
    gone = set(superseded(each.segment for each in files))
    joined = {each for group in joins(files, file_bytes) for each in group}
    return Outcome(
        sum(each.segment in gone or each in joined or holds(archive, place, each, erased, sent) for each in files)
    )


def holds(archive: Archive, place: Place, file: Archived, erased: Erased, sent: Sent = _NONE) -> bool:
    """Whether a file has records of deleted users."""
    here = {key: before for key, before in erased.items() if before > file.segment.first}
    columns = ["key", "headers"] if sent else ["key"]
    rows = archive.rows(place, [file.segment], columns, emptied=False) if here or sent else ()
    return any(_of_deleted(batch, here, sent).any() for batch in rows)


def _of_deleted(batch: pa.RecordBatch, erased: Erased, sent: Sent) -> npt.NDArray[np.bool_]:
    """Whether each row is a record of a deleted user."""
    users = pa.array({*erased, *chain(*sent.values())}, pa.binary())
    found = pc.is_in(batch["key"], value_set=users).to_numpy(zero_copy_only=False)
    offsets, keys = batch["offset"], batch["key"]
    for row in np.flatnonzero(found).tolist():
        key = keys[row].as_py()
        found[row] = offsets[row].as_py() < erased.get(key, 0) or (sent and _sent(batch["headers"][row], key, sent))
    return found


def _sent(headers: Any, key: bytes, sent: Sent) -> bool:
    """Whether a record is the copy of a deleted user's record."""
    marker = Marker.from_headers([(each["key"], each["value"]) for each in headers.as_py() or ()])
    return marker is not None and marker.offset < sent.get(marker[:2], {}).get(key, 0)


def _emptied(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Those of `rows` that have a marker, without values and other headers."""
    marked = [
        {**row, "timestamp_type": EMPTIED, "value": None, "headers": [{"key": MARKER_HEADER, "value": marker}]}
        for row in rows.to_pylist()
        if (marker := {each["key"]: each["value"] for each in row["headers"] or ()}.get(MARKER_HEADER))
    ]
    return pa.RecordBatch.from_pylist(marked, SCHEMA)


def _rewrite(archive: Archive, place: Place, files: Sequence[Archived], erased: Erased, sent: Sent) -> int:
    """Replace consecutive `files` by one file; returns the number of records left out or emptied."""
    parts = [file.segment for file in files]
    segment = Segment(min(parts).first, max(part.last for part in parts))
    topic_id, left_out = archive.topic_id(place) or "", 0

    def kept() -> Iterator[pa.RecordBatch]:
        nonlocal left_out
        for batch in archive.rows(place, parts):
            gone = _of_deleted(batch, erased, sent)
            left_out += int((gone & (batch["timestamp_type"].to_numpy() != EMPTIED)).sum())
            both = [batch.filter(pa.array(~gone)), _emptied(batch.filter(pa.array(gone)))]
            yield from pa.Table.from_batches(both, SCHEMA).sort_by("offset").to_batches() if gone.any() else [batch]

    with archive.writing(place, topic_id) as file:
        for batch in kept():
            file.add(batch)
        # Another compaction may know of later deletions.
        if not {*files} <= {*archive.files(place)}:
            msg = f"another compaction changes {place[0]}:{place[1]}; run it again when that one has ended"
            raise StreamStateError(msg)
        file.keep(segment.name)
    # The parts hold the records of deleted users.
    archive.delete(place, {*parts} - {segment})
    return left_out
