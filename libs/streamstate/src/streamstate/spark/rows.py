"""The rows of a query, column by column: their order, and what belongs to one partition of one topic."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamstate.processing.decode import RawRecord
from streamstate.state.store import TopicPartition

COLUMNS = ("topic", "partition", "offset", "unix_millis(timestamp) AS timestamp", "key", "value")
"""What the query selects, and the columns of the batches here."""


def whole(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All of `batches` as one, or none when there are none."""
    found = list(batches)
    if found:
        yield from pa.Table.from_batches(found).combine_chunks().to_batches()


def in_order(
    batch: pa.RecordBatch, topics: Sequence[str], first: Collection[str], times: Mapping[TopicPartition, int]
) -> pa.RecordBatch:
    """The rows by stream time, at a tie in the order of `topics`; those of the topics `first` before all others.

    The rows of each partition of a topic come, and stay, in the order of their offsets. `times` are the stream times
    (milliseconds) before these rows.
    """
    names, codes = _places(batch)
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    stream_times = batch["timestamp"].to_numpy()[order]
    for start, end in _runs(codes):
        place = _place(names, codes[start])
        so_far = np.maximum.accumulate(stream_times[start:end])
        stream_times[start:end] = np.maximum(so_far, times.get(place, 0))
    ranks = np.array([topics.index(name) for name in names])[codes >> 32]
    later = np.array([name not in first for name in names])[codes >> 32]
    return batch.take(order[np.lexsort((ranks, stream_times, later))])


def by_partition(batch: pa.RecordBatch) -> dict[TopicPartition, list[RawRecord]]:
    """The rows by topic and partition, each in the order in which they come."""
    names, codes = _places(batch)
    if (np.diff(codes) < 0).any():
        # The sort is stable, so the order within each place stays.
        return by_partition(batch.take(np.argsort(codes, kind="stable")))
    columns = [batch[name].to_numpy(zero_copy_only=False) for name in ("offset", "timestamp", "key", "value")]
    return {
        _place(names, codes[start]): list(zip(*(column[start:end].tolist() for column in columns), strict=True))
        for start, end in _runs(codes)
    }


def _places(batch: pa.RecordBatch) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The topics, and a number for each row: its topic's position there, shifted left by 32 bits, and its partition."""
    topics = batch["topic"].dictionary_encode()
    codes: npt.NDArray[np.int64] = topics.indices.to_numpy().astype(np.int64) << 32
    return [str(name) for name in topics.dictionary.to_pylist()], codes | batch["partition"].to_numpy()


def _place(names: Sequence[str], code: np.int64) -> TopicPartition:
    return names[int(code >> 32)], int(code & 0xFFFFFFFF)


def _runs(codes: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where each run of equal codes starts and ends."""
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1), len(codes)]
    return ((start, end) for start, end in pairwise(cuts) if start < end)
