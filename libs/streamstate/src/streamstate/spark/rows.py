"""The rows of a query, column by column, grouped by topic and partition."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamstate.app import App
from streamstate.errors import BatchTooLarge
from streamstate.keys import MARKER_HEADER
from streamstate.processing.decode import KEY_ID, VALUE_ID, Markers, RawRecord, framed, topics_with_header_ids
from streamstate.state.store import TopicPartition

COLUMNS = ("topic", "partition", "offset", "unix_millis(timestamp) AS timestamp")
"""The selected columns of every query, before key and value."""

MOST_BYTES = 64 << 20
"""Limit of a worker's rows that wait for more rows of their partition."""


def columns(app: App) -> Sequence[str]:
    """The selected columns of the query of `app`. Headers cost more than the whole decoding."""
    return (
        *COLUMNS,
        *(
            _behind_id(name, header, topics_with_header_ids(app))
            for name, header in (("key", KEY_ID), ("value", VALUE_ID))
        ),
        *((f"{_header(MARKER_HEADER)} AS marker",) if app.marked else ()),
    )


def needs_headers(app: App, topic: str) -> bool:
    """Whether rows of `topic` are read with their headers."""
    return topic in app.marked or topic in topics_with_header_ids(app)


def _header(name: str) -> str:
    """The value of the last header called `name`, null without one."""
    return f"try_element_at(filter(headers, header -> header.key = '{name}'), -1).value"


def _behind_id(column: str, header: str, topics: Set[str]) -> str:
    """Key or value, of `topics` behind the schema id in its header."""
    if not topics:
        return column
    named = ", ".join(f"'{topic}'" for topic in sorted(topics))
    return f"IF(topic IN ({named}), concat(coalesce({_header(header)}, X''), {column}), {column}) AS {column}"


def gather(batches: Iterable[pa.RecordBatch], most: int) -> list[pa.RecordBatch]:
    """All `batches` as one, or none. Raises `BatchTooLarge` for more than `most` rows."""
    gathered: list[pa.RecordBatch] = []
    left = most
    for batch in batches:
        left -= batch.num_rows
        if left < 0:
            msg = f"more than {most} records came at once; they are folded slice by slice"
            raise BatchTooLarge(msg)
        gathered.append(batch)
    return [joined(gathered)] if gathered else []


def whole_partitions(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The rows of `batches` in their order, in few batches of about `most` rows, or 64 MiB, and the rest.

    Batches end before the rows of a new partition, or after `most` rows of one partition.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        while sum(rows.num_rows for rows in held) >= most or sum(rows.nbytes for rows in held) >= MOST_BYTES:
            rows = joined(held)
            *_, (begin, end) = _runs(_places(rows)[1])
            cut = begin or min(end, most)
            yield rows.slice(0, cut)
            held = [rows.slice(cut)] if cut < rows.num_rows else []
    if held:
        yield joined(held)


def by_partition(batch: pa.RecordBatch) -> dict[TopicPartition, list[RawRecord]]:
    """The rows by topic and partition, each in order of arrival."""
    names, codes = _places(batch)
    if (np.diff(codes) < 0).any():
        # The sort is stable, so the order within each place stays.
        return by_partition(batch.take(np.argsort(codes, kind="stable")))
    return {_place(names, codes[start]): raw(batch.slice(start, end - start)) for start, end in _runs(codes)}


def framed_rows(batch: pa.RecordBatch) -> list[RawRecord]:
    """The rows of one partition, behind the schema ids in the column of headers."""
    headers = ({each["key"]: each["value"] for each in of_record or ()} for of_record in batch["headers"].to_pylist())
    rows = zip(raw(batch), headers, strict=True)
    return [(offset, time, *framed(found, key, value)) for (offset, time, key, value), found in rows]


def raw(batch: pa.RecordBatch) -> list[RawRecord]:
    """The rows of one partition."""
    columns = [batch[name].to_numpy(zero_copy_only=False) for name in ("offset", "timestamp", "key", "value")]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def markers(batch: pa.RecordBatch) -> dict[TopicPartition, Markers]:
    """The markers by topic, partition and offset; empty without marked topics."""
    by_place: defaultdict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
    if "marker" in batch.schema.names:
        for topic, partition, offset, marker in zip(
            *(batch[name].to_pylist() for name in ("topic", "partition", "offset", "marker")), strict=True
        ):
            if marker is not None:
                by_place[topic, partition][offset] = marker
    return dict(by_place)


def marked(batch: pa.RecordBatch) -> Markers:
    """The markers of one partition by offset, from the column of headers: the last of a record counts."""
    headers = zip(batch["offset"].to_numpy().tolist(), batch["headers"].to_pylist(), strict=True)
    return {
        offset: header["value"]
        for offset, of_record in headers
        for header in of_record or ()
        if header["key"] == MARKER_HEADER and header["value"] is not None
    }


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole: pa.RecordBatch = pa.concat_batches(batches)  # type: ignore[attr-defined]  # its stub is older
    return whole


def _places(batch: pa.RecordBatch) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The topics, and a number for each row: its topic's position there, shifted left by 32 bits, and its partition."""
    topics = batch["topic"].dictionary_encode()
    codes: npt.NDArray[np.int64] = topics.indices.to_numpy().astype(np.int64) << 32
    return [str(name) for name in topics.dictionary.to_pylist()], codes | batch["partition"].to_numpy()


def _place(names: Sequence[str], code: np.int64) -> TopicPartition:
    return names[int(code >> 32)], int(code & 0xFFFFFFFF)


def _runs(codes: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of equal codes."""
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1), len(codes)]
    return ((start, end) for start, end in pairwise(cuts) if start < end)
