"""The rows of a file of JSON lines, CSV or Parquet: the number of each line, and its event as JSON."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from streamstate.cli.services import imported
from streamstate.profile.fields import FieldType
from streamstate.texts import milliseconds

Row = tuple[int, bytes]
"""The number of a line from 1 on, and the JSON of its event; empty for an empty line."""

PER_MS = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}
_BATCH = 5_000
PAUSE_S = 0.5
"""Seconds between two looks at a growing file."""

_LITERAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[-+]?[0-9]+)?|true|false")
_encode = msgspec.json.Encoder(decimal_format="number").encode


class _Lines:
    """The lines of a file; after the end, `next` reads lines written since. The last line of a growing file waits."""

    def __init__(self, file: BinaryIO, *, growing: bool) -> None:
        self._file, self._growing, self._begun = file, growing, b""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        line = self._begun + self._file.readline()
        self._begun = line if self._growing and not line.endswith(b"\n") else b""
        if not line or self._begun:
            raise StopIteration
        return line.strip()


def batches(path: Path, fields: Mapping[str, FieldType], *, growing: bool) -> Iterator[list[Row]]:
    """The rows, some thousands at a time; of a growing file without end, none where no line is new.

    fields: the declared fields, by the paths of their members.
    """
    with path.open("rb") as file:
        lines = _Lines(file, growing=growing)
        rows: Iterator[Row] = enumerate(lines, 1)
        if path.suffix == ".csv":
            rows = _csv(lines, fields)
        elif path.suffix == ".parquet":
            rows = _parquet(file, fields)
        while (batch := list(islice(rows, _BATCH))) or growing:
            yield batch


def _csv(lines: Iterable[bytes], fields: Mapping[str, FieldType]) -> Iterator[Row]:
    """The first line names the members. A cell is a text, unless its field has another type."""
    reader = csv.reader(map(bytes.decode, lines))
    names = next(reader, [])
    texts = [name not in fields or fields[name].kind == "str" for name in names]

    def row(cells: list[str]) -> Row:
        given = zip(names, cells, texts, strict=False)
        return reader.line_num, _encode({name: cell if text else _literal(cell) for name, cell, text in given if cell})

    return map(row, reader)


def _literal(cell: str) -> str | msgspec.Raw:
    literal = cell.lower()
    return msgspec.Raw(literal.encode()) if _LITERAL.fullmatch(literal) else cell


def _parquet(file: BinaryIO, fields: Mapping[str, FieldType]) -> Iterator[Row]:
    read = imported("pyarrow.parquet").ParquetFile(file)
    for number, row in enumerate((row for batch in read.iter_batches(_BATCH) for row in batch.to_pylist()), 1):
        for name, value in row.items():
            if isinstance(value, datetime) and name in fields and fields[name].unit:
                row[name] = round(milliseconds(value.isoformat()) * PER_MS[fields[name].unit])
        yield number, _encode(row)
