"""Files that have their names only when all is written."""

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

ROW_GROUP = 65_536
"""The most rows of a row group. A reader needs memory for one group."""

_GROUP_BYTES = 32 << 20
"""The bytes, without compression, after which a row group ends."""


class Unfinished:
    """A Parquet file in `folder` without its name: no reader sees the file before `keep`.

    Every method raises `OSError` where the file system fails.
    """

    def __init__(self, files: fs.FileSystem, folder: str, schema: pa.Schema) -> None:
        self._files = files
        self._folder = folder
        self._schema = schema
        self._path = f"{folder}/.{uuid.uuid4().hex}"
        self._stream = files.open_output_stream(self._path)
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd")
        self._ahead: list[pa.RecordBatch] = []
        self._ahead_rows = self._ahead_bytes = 0
        self._size = 0
        self._kept = False

    @property
    def size(self) -> int:
        """The bytes so far; rows of an incomplete row group count without compression."""
        return self._size or self._stream.tell() + self._ahead_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows; they follow the earlier rows by offset."""
        self._ahead.append(batch)
        self._ahead_rows += batch.num_rows
        self._ahead_bytes += batch.nbytes
        if self._ahead_rows >= ROW_GROUP or self._ahead_bytes >= _GROUP_BYTES:
            self._flush()

    def keep(self, name: str) -> None:
        """Complete the file, and name it. A file of the same name is replaced."""
        self._flush()
        self._writer.close()
        self._size = self._stream.tell()
        self._stream.close()
        self._sync(self._path)
        self._files.move(self._path, f"{self._folder}/{name}")
        self._kept = True
        self._sync(self._folder)

    def close(self) -> None:
        """Delete the file unless it is kept."""
        if not self._kept:
            for end in (self._writer.close, self._stream.close, lambda: self._files.delete_file(self._path)):
                with suppress(OSError):
                    end()

    def _flush(self) -> None:
        if self._ahead:
            table = pa.Table.from_batches(self._ahead).replace_schema_metadata(self._schema.metadata)
            self._writer.write_table(table, row_group_size=ROW_GROUP)
            self._ahead, self._ahead_rows, self._ahead_bytes = [], 0, 0

    def _sync(self, path: str) -> None:
        """Wait until a local disk has the file or folder: Kafka deletes the records that the archive has."""
        if isinstance(self._files, fs.LocalFileSystem):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextmanager
def writing(system: fs.FileSystem, folder: str, schema: pa.Schema) -> Iterator[Unfinished]:
    """A new file; the end of the body deletes a file without a name."""
    system.create_dir(folder, recursive=True)
    file = Unfinished(system, folder, schema)
    try:
        yield file
    finally:
        file.close()


def write_text(system: fs.FileSystem, path: str, content: bytes) -> None:
    """Write a small file, which has its name only when all is written."""
    folder, _, _ = path.rpartition("/")
    system.create_dir(folder, recursive=True)
    unfinished = f"{folder}/.{uuid.uuid4().hex}"
    with system.open_output_stream(unfinished) as stream:
        stream.write(content)
    system.move(unfinished, path)


def write_whole(system: fs.FileSystem, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a Parquet file, which has its name only when all is written; a file of the same name is replaced."""
    folder, _, name = path.rpartition("/")
    with writing(system, folder, schema) as file:
        for batch in batches:
            file.add(batch)
        file.keep(name)
