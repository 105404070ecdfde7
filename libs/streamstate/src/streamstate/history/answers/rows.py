"""The rows of a training set: keys and times from a file, by partition."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from streamstate.errors import BadKey, Declined
from streamstate.history.answers.columns import KEY
from streamstate.keys import KeyCodec, partition_of

TIME = pa.timestamp("ms", tz="UTC")
_FIELDS: "list[pa.Field[Any]]" = [KEY, pa.field("time", TIME, nullable=False)]
SCHEMA = pa.schema(_FIELDS)


def read(path: Path) -> "pa.Table":
    """The columns key (as in a URL) and time of a Parquet or CSV file.

    A time is milliseconds since 1970, a timestamp, or ISO 8601; without a zone, UTC. Raises `Declined` for a file
    without rows or these columns, or with another time or an empty one.
    """
    try:
        table: Any = pq.read_table(path, columns=["key", "time"]) if _is_parquet(path) else _csv(path)
        key, time = table["key"].cast(pa.string()), table["time"]
        if pa.types.is_string(time.type) or pa.types.is_large_string(time.type):
            time = pa.chunked_array([pa.array(_moments(path, time.to_pylist()), TIME)])
        elif pa.types.is_timestamp(time.type) and time.type.tz is None:
            time = pc.assume_timezone(pc.cast(time, pa.timestamp("ms"), safe=False), "UTC")
        rows = pa.table({"key": key, "time": pc.cast(time, TIME, safe=False)})
    except (ValueError, OverflowError, pa.ArrowNotImplementedError, KeyError) as error:
        msg = f"{path} has no columns key and time (milliseconds, or ISO 8601), separated by commas in CSV: {error}"
        raise Declined(msg) from error
    if not rows.num_rows:
        msg = f"{path} has no rows"
        raise Declined(msg)
    if rows["key"].null_count or rows["time"].null_count:
        msg = f"{path} has rows without a key or a time"
        raise Declined(msg)
    return rows


def by_partition(rows: "pa.Table", codec: KeyCodec[Any], partitions: int) -> Iterator[tuple[int, "pa.Table"]]:
    """The rows of each partition that has rows, by time. Raises `BadKey` for a text that names no key."""
    keys: Any = rows["key"].combine_chunks().dictionary_encode()
    of_key = [partition_of(_encoded(codec, text), partitions) for text in keys.dictionary.to_pylist()]
    places = np.array(of_key, np.int32)[keys.indices.to_numpy()]
    order = np.lexsort((rows["time"].to_numpy(), places))
    ordered, counts = rows.take(order), np.bincount(places)
    starts = np.cumsum(counts) - counts
    for partition in np.flatnonzero(counts):
        yield int(partition), ordered.slice(starts[partition], counts[partition])


def _encoded(codec: KeyCodec[Any], text: str) -> bytes:
    try:
        return codec.encode(codec.parse(text))
    except BadKey as error:
        msg = f"{text!r} is no key: {error}"
        raise BadKey(msg) from error


def _moments(path: Path, texts: Iterable[str | None]) -> Iterator[datetime | int | None]:
    """The times of `texts`. Raises `Declined` with the row of another text."""
    for row, text in enumerate(texts, 1):
        try:
            yield _moment(text)
        except ValueError as error:
            msg = f"{path} has the time {text!r} in row {row}; write 2026-01-31T09:00:00Z, or milliseconds since 1970"
            raise Declined(msg) from error


def _moment(text: str | None) -> datetime | int | None:
    """The time of a text. Raises `ValueError` for another text."""
    if not text or (text.isascii() and text.strip().isdecimal()):
        return int(text) if text else None
    time = datetime.fromisoformat(text.strip())
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _csv(path: Path) -> "pa.Table":
    convert = pyarrow.csv.ConvertOptions(column_types={"key": pa.string()}, include_columns=["key", "time"])
    return pyarrow.csv.read_csv(path, convert_options=convert)
