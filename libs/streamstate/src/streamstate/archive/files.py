"""The files of an archive, in any file system of Arrow: `<topic>/<partition>/<first>-<last>.parquet`.

A file is written under another name and renamed when it is complete, so each named file is whole.
"""

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from streamstate.archive.segments import Section, Segment, named, sections
from streamstate.errors import Misconfigured, StreamStateError

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),
    pa.field("timestamp_type", pa.int8(), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
]
SCHEMA = pa.schema(_FIELDS)
"""A row is a record. timestamp: milliseconds since 1970, as Kafka has it. timestamp_type: 1, the producer's; 2, the
broker's. headers: in their order, null without headers."""

_TOPIC_ID = b"streamstate.topic_id"
_ROW_GROUP = 65_536
"""Rows read at once: a reader needs memory for one group."""

Place = tuple[str, int]
"""Topic and partition."""


class Archived(NamedTuple):
    """A segment's file: its segment, bytes and path."""

    segment: Segment
    size: int
    path: str


class ReplacedTopic(Misconfigured):
    """A file of a topic that was deleted and created anew since."""


class Archive:
    """An archive at `uri`: a folder, `s3://bucket/path`, `gs://…`, `abfs://…` or `hdfs://…`, with options as Arrow has.

    Raises `Misconfigured` for a URI that Arrow cannot open. Every method raises `OSError` where the file system fails.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = opened(uri)

    def topics(self) -> dict[str, list[int]]:
        """The partitions with a folder, by topic."""
        found: dict[str, list[int]] = {}
        for topic in self._list(self._root, fs.FileType.Directory):
            partitions = [info.base_name for info in self._list(topic.path, fs.FileType.Directory)]
            if numbers := sorted(int(name) for name in partitions if name.isdigit()):
                found[topic.base_name] = numbers
        return dict(sorted(found.items()))

    def files(self, place: Place) -> list[Archived]:
        """The files of a partition, by offset."""
        infos = self._list(self._folder(place), fs.FileType.File)
        return sorted(Archived(segment, info.size, info.path) for info in infos if (segment := named(info.base_name)))

    def segments(self, place: Place) -> list[Segment]:
        """The segments of a partition, by offset."""
        return [file.segment for file in self.files(place)]

    def topic_id(self, place: Place) -> str | None:
        """The id of the topic in the newest file of a partition, None without a file."""
        files = self.files(place)
        return self._topic_id(pq.read_schema(files[-1].path, filesystem=self._fs)) if files else None

    def write(self, place: Place, segment: Segment, topic_id: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Write the records of `segment`, of the topic with the id `topic_id`: `batches` of `SCHEMA`, by offset.

        The file has its name only when all is written. A file of the same name is replaced.
        """
        schema = SCHEMA.with_metadata({_TOPIC_ID: topic_id.encode()})
        write_whole(self._fs, f"{self._folder(place)}/{segment.name}", schema, batches)

    def read(
        self,
        place: Place,
        start: int,
        stop: int | None = None,
        topic_id: str | None = None,
        columns: Sequence[str] = tuple(SCHEMA.names),
    ) -> Iterator[pa.RecordBatch]:
        """The rows with offsets from `start` on, before `stop` or the first offset without a segment, by offset.

        Raises `ReplacedTopic` when a file is of a topic with another id than `topic_id` (None: any id).
        """
        reached, missing = start, True
        while missing:
            missing = False
            for section in sections(self.segments(place), reached, stop):
                try:
                    for batch in self._rows(place, section, topic_id, columns):
                        yield batch
                        reached = batch["offset"][-1].as_py() + 1
                except FileNotFoundError:
                    # A compaction joined the file with others after the look at the names.
                    missing = True
                    break
                reached = section.stop

    def delete(self, place: Place, segments: Iterable[Segment]) -> None:
        """Delete the files of `segments`."""
        for segment in segments:
            with suppress(FileNotFoundError):
                self._fs.delete_file(f"{self._folder(place)}/{segment.name}")

    def _rows(
        self, place: Place, section: Section, topic_id: str | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        path = f"{self._folder(place)}/{section.segment.name}"
        with self._fs.open_input_file(path) as source:
            try:
                file = pq.ParquetFile(source, pre_buffer=True)
            except pa.ArrowInvalid as error:
                msg = f"{path} of the archive is damaged ({error}); bring it back from a copy"
                raise StreamStateError(msg) from error
            if topic_id is not None and (held := self._topic_id(file.schema_arrow)) != topic_id:
                msg = (
                    f"{path} is of a topic {place[0]} with the id {held}, and Kafka has {topic_id}: the topic was "
                    "created anew; move the folder away, and archive the new topic to an empty one"
                )
                raise ReplacedTopic(msg)
            groups = [group for group in range(file.num_row_groups) if _touches(file.metadata, group, section)]
            wanted = list(dict.fromkeys(("offset", *columns)))
            for batch in file.iter_batches(_ROW_GROUP, groups, wanted) if groups else ():
                begin, end = np.searchsorted(batch["offset"].to_numpy(), (section.start, section.stop))
                if begin < end:
                    yield batch.slice(begin, end - begin)

    def _folder(self, place: Place) -> str:
        topic, partition = place
        return f"{self._root}/{topic}/{partition}"

    def _list(self, folder: str, kind: fs.FileType) -> list[fs.FileInfo]:
        found = self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return [info for info in found if info.type == kind and not info.base_name.startswith((".", "_"))]

    @staticmethod
    def _topic_id(schema: pa.Schema) -> str:
        metadata: Mapping[bytes, bytes] = schema.metadata or {}
        return metadata.get(_TOPIC_ID, b"").decode()


def opened(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder or a URI, and the path there. Raises `Misconfigured` for a URI unknown to Arrow."""
    try:
        system, path = fs.FileSystem.from_uri(_absolute(uri))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        msg = f"{uri} cannot be opened ({error}); name a folder, or a URI such as s3://bucket/path"
        raise Misconfigured(msg) from error
    return system, path.rstrip("/")


def write_whole(system: fs.FileSystem, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a Parquet file, which has its name only when all is written; a file of the same name is replaced."""
    folder = path.rpartition("/")[0]
    system.create_dir(folder, recursive=True)
    unfinished = f"{folder}/.{uuid.uuid4().hex}"
    try:
        with (
            system.open_output_stream(unfinished) as stream,
            pq.ParquetWriter(stream, schema, compression="zstd") as writer,
        ):
            for batch in batches:
                writer.write_batch(batch.replace_schema_metadata(schema.metadata), row_group_size=_ROW_GROUP)
        _keep(system, unfinished)
        system.move(unfinished, path)
        _keep(system, folder)
    except BaseException:
        with suppress(OSError):
            system.delete_file(unfinished)
        raise


def _keep(system: fs.FileSystem, path: str) -> None:
    """Wait until a local disk has the file or folder: Kafka deletes what the archive has."""
    if isinstance(system, fs.LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _touches(metadata: pq.FileMetaData, group: int, section: Section) -> bool:
    """Whether a row group has offsets of `section`, by its statistics."""
    statistics = metadata.row_group(group).column(0).statistics
    first, last = (statistics.min, statistics.max) if statistics else (None, None)
    return first is None or last is None or (first < section.stop and last >= section.start)


def _absolute(uri: str) -> str:
    """`uri` as Arrow reads it: a folder by its absolute path, and Hadoop's name for S3."""
    if uri.startswith("s3a://"):
        return uri.replace("s3a", "s3", 1)
    return uri if "://" in uri else str(Path(uri).resolve())
