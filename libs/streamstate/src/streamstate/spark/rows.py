"""The rows of a query, column by column: what belongs to one partition of one topic."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamstate.errors import BatchTooLarge
from streamstate.processing.decode import RawRecord
from streamstate.state.store import TopicPartition

COLUMNS = ("topic", "partition", "offset", "unix_millis(timestamp) AS timestamp", "key", "value")
"""What the query selects, and the columns of the batches here."""


def gather(batches: Iterable[pa.RecordBatch], most: int) -> Mapping[TopicPartition, Sequence[RawRecord]]:
    """The rows of all `batches` by topic and partition, each in the order in which they come.

    Raises `BatchTooLarge` when there are more than `most`.
    """
    rows: defaultdict[TopicPartition, list[RawRecord]] = defaultdict(list)
    left = most
    for batch in batches:
        left -= batch.num_rows
        if left < 0:
            msg = f"more than {most} records came at once; they are folded slice by slice"
            raise BatchTooLarge(msg)
        for place, raw in by_partition(batch).items():
            rows[place] += raw
    return rows


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
