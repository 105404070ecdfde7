"""Archived records of merged topics in the order of stream time, in memory for a few batches."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamstate.spark.rows import joined
from streamstate.state.store import TopicPartition

Piece = dict[TopicPartition, pa.RecordBatch]
Loaded = tuple[pa.RecordBatch, npt.NDArray[np.int64]]
"""Rows, and their stream times in milliseconds."""

_BYTES = 64 << 20
"""The bytes after which a batch ends: of large records, a batch of as many rows would fill the memory."""


def sized(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of `batches` in batches of `size` rows, or of less with large records, and the rest."""
    held: list[pa.RecordBatch] = []
    lacking, left = size, _BYTES
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            held.append(batch.slice(start, lacking))
            start += held[-1].num_rows
            lacking -= held[-1].num_rows
            left -= held[-1].nbytes
            if not lacking or left <= 0:
                yield joined(held)
                held, lacking, left = [], size, _BYTES
    if held:
        yield joined(held)


class Cursor:
    """Rows of one topic, batch by batch; true while there are rows.

    A later record has its stream time from all earlier records, whether they can be decoded or not, as Kafka finds
    records by timestamp.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], time: int = 0, before: int | None = None) -> None:
        """time: of the records before. before: the stream time at which the rows end, None for all rows."""
        self._batches = batches
        self._before = before
        self._time = time
        self._next = self._read()
        self._loaded: Loaded | None = None
        self._load()

    def __bool__(self) -> bool:
        return self._loaded is not None

    def _read(self) -> Loaded | None:
        batch = next(self._batches, None)
        if batch is None:
            return None
        times = np.maximum.accumulate(np.maximum(batch["timestamp"].to_numpy(), self._time))
        self._time = int(times[-1])
        if self._before is None or self._time < self._before:
            return batch, times
        self._batches = iter(())
        kept = int(np.searchsorted(times, self._before))
        return (batch.slice(0, kept), times[:kept]) if kept else None

    def _load(self) -> None:
        self._loaded = self._next
        self._next = self._read() if self._next else None

    @property
    def bound(self) -> int | None:
        """The stream time of the last loaded row, None without further rows: rows of this time may follow."""
        return int(self._loaded[1][-1]) if self._loaded and self._next else None

    def take(self, time: int | None, side: Literal["left", "right"] = "left") -> pa.RecordBatch | None:
        """The loaded rows before the stream time `time` (`side` right: and with it; None: all); None without a row."""
        if self._loaded is None:
            return None
        batch, times = self._loaded
        end = len(times) if time is None else int(np.searchsorted(times, time, side))
        if end == len(times):
            self._load()
        else:
            self._loaded = batch.slice(end), times[end:]
        return batch.slice(0, end) if end else None


def merged(cursors: Mapping[TopicPartition, Cursor]) -> Iterator[Piece]:
    """The rows of `cursors` in pieces: stream times rise from piece to piece, at a tie in the order of `cursors`."""
    while any(cursors.values()):
        bound = min((cursor.bound for cursor in cursors.values() if cursor.bound is not None), default=None)
        piece: Piece = {}
        side: Literal["left", "right"] = "right"
        for place, cursor in cursors.items():
            unfinished = bound is not None and cursor.bound == bound
            if (rows := cursor.take(bound, side)) is not None:
                piece[place] = rows
            if unfinished:
                # Further rows of the moment come before the same moment of later topics.
                side = "left"
        yield piece
