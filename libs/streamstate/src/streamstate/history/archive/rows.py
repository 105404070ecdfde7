"""Rows of an archive, from records of Kafka's client."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from streamstate.history.archive.files import SCHEMA

Row = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]
"""A record in the order of `SCHEMA`."""


def row(message: Message) -> Row:
    kind, timestamp = message.timestamp()
    # The client returns a list for every record with headers.
    headers: Any = message.headers() or None
    return message.offset() or 0, timestamp, kind, message.key(), message.value(), headers


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as Arrow has them."""
    *columns, headers = zip(*rows, strict=True)
    named = [each and [{"key": key, "value": value} for key, value in each] for each in headers]
    arrays = [pa.array(column, field.type) for column, field in zip([*columns, named], SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
