"""The files of an archive, in any file system of Arrow: `<topic>/<partition>/<first>-<last>.parquet`.

A file is written under another name and renamed when it is complete, so each named file is whole.
"""

import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from streamstate.errors import Declined, Misconfigured, StreamStateError
from streamstate.history.archive.segments import Section, Segment, named, sections
from streamstate.history.archive.unfinished import ROW_GROUP, Unfinished, writing

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
SCHEMAS = "_schemas"
"""The folder of schemas, and perhaps of the partitions of a topic with this name."""

_SHOWN = 400
"""The most characters of a reason: the reason of a missing library has a line for each tried path."""

_GS_RETRIES = "retry_limit_seconds"
"""The option of gs:// that ends attempts; by default, Arrow tries for 15 minutes."""

_CREDENTIAL = re.compile(r"://[^@]*:[^@]*@")

_UNFINISHED_S = 86_400.0
"""Seconds after which an unfinished file is a killed writer's."""

Place = tuple[str, int]
"""Topic and partition."""


class Archived(NamedTuple):
    """A segment's file: its segment, bytes, path, and the time (seconds since 1970) at which it was written."""

    segment: Segment
    size: int
    path: str
    written: float


class ReplacedTopic(Misconfigured):
    """A file of a topic that was deleted and created anew since."""


class Archive:
    """An archive at `uri`: a folder, `s3://bucket/path`, `gs://…`, `abfs://…` or `hdfs://…`, with options as Arrow has.

    Raises `Misconfigured` for a URI that Arrow cannot open. Every method raises `OSError` where the file system fails.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._fs, self._root = opened(uri)

    @property
    def is_missing(self) -> bool:
        """Whether the folder of the archive does not exist. Without a file, an object store has no folder."""
        return self._fs.get_file_info(self._root).type is fs.FileType.NotFound

    def topics(self) -> dict[str, list[int]]:
        """The partitions with a folder, by topic."""
        found: dict[str, list[int]] = {}
        for topic in self._list(self._root, fs.FileType.Directory):
            partitions = [info.base_name for info in self._list(topic.path, fs.FileType.Directory)]
            if numbers := sorted(int(name) for name in partitions if name.isdecimal()):
                found[topic.base_name] = numbers
        return dict(sorted(found.items()))

    def files(self, place: Place) -> list[Archived]:
        """The files of a partition, by offset."""
        infos = self._list(self._folder(place), fs.FileType.File)
        return sorted(
            Archived(segment, info.size, info.path, (info.mtime_ns or 0) / 1e9)
            for info in infos
            if (segment := named(info.base_name))
        )

    def segments(self, place: Place) -> list[Segment]:
        """The segments of a partition, by offset."""
        return [file.segment for file in self.files(place)]

    def topic_id(self, place: Place) -> str | None:
        """The id of the topic in the newest file of a partition, None without a file."""
        files = self.files(place)
        if not files:
            return None
        with self._opened(place, files[-1].segment) as file:
            return self._topic_id(file.schema_arrow)

    def write(self, place: Place, segment: Segment, topic_id: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Write the records of `segment`, of the topic with the id `topic_id`: `batches` of `SCHEMA`, by offset.

        The file has its name only when all is written. A file of the same name is replaced.
        """
        with self.writing(place, topic_id) as file:
            for batch in batches:
                file.add(batch)
            file.keep(segment.name)

    def writing(self, place: Place, topic_id: str) -> AbstractContextManager[Unfinished]:
        """A file of the topic with the id `topic_id`, to be named after a segment."""
        return writing(self._fs, self._folder(place), SCHEMA.with_metadata({_TOPIC_ID: topic_id.encode()}))

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

    def rows(
        self, place: Place, segment: Segment, columns: Sequence[str] = tuple(SCHEMA.names)
    ) -> Iterator[pa.RecordBatch]:
        """All rows of a file, by offset."""
        return self._rows(place, Section(segment, segment.first, segment.last + 1), None, columns)

    def times(self, place: Place, segment: Segment) -> tuple[int, int] | None:
        """The least and the greatest timestamp of a file, in milliseconds since 1970; None for a file without rows."""
        with self._opened(place, segment) as file:
            found = [*_ranges(file.metadata, 1).values()]
        return (min(least for least, _ in found), max(most for _, most in found)) if found else None

    def delete(self, place: Place, segments: Iterable[Segment]) -> None:
        for segment in segments:
            with suppress(FileNotFoundError):
                self._fs.delete_file(f"{self._folder(place)}/{segment.name}")

    def delete_unfinished(self, place: Place) -> None:
        """Delete the unfinished files that killed writers left a day ago or earlier."""
        for info in self._fs.get_file_info(fs.FileSelector(self._folder(place), allow_not_found=True)):
            if info.base_name.startswith(".") and time.time() - (info.mtime_ns or 0) / 1e9 > _UNFINISHED_S:
                with suppress(FileNotFoundError):
                    self._fs.delete_file(info.path)

    def schema(self, number: int | str) -> bytes | None:
        """The kept schema of the registry with the id `number`, as written by `add_schema`; None without one."""
        try:
            with self._fs.open_input_file(f"{self._root}/{SCHEMAS}/{number}.json") as stored:
                return stored.read()
        except FileNotFoundError:
            return None

    def add_schema(self, number: int | str, content: bytes) -> None:
        """Keep a schema of the registry, beside the topics."""
        write_text(self._fs, f"{self._root}/{SCHEMAS}/{number}.json", content)

    def _rows(
        self, place: Place, section: Section, topic_id: str | None, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        with self._opened(place, section.segment) as file:
            if topic_id is not None and (held := self._topic_id(file.schema_arrow)) != topic_id:
                msg = (
                    f"{section.segment.name} of {place[0]}:{place[1]} is of a topic with the id {held}, and Kafka has "
                    f"{topic_id}: the topic was created anew; move the folder {place[0]} of the archive away, and "
                    "archive the new topic to an empty one"
                )
                raise ReplacedTopic(msg)
            ranges = _ranges(file.metadata, 0).items()
            groups = [group for group, (first, last) in ranges if first < section.stop and last >= section.start]
            wanted = list(dict.fromkeys(("offset", *columns)))
            for batch in file.iter_batches(ROW_GROUP, groups, wanted) if groups else ():
                begin, end = np.searchsorted(batch["offset"].to_numpy(), (section.start, section.stop))
                if begin < end:
                    yield batch.slice(begin, end - begin)

    @contextmanager
    def _opened(self, place: Place, segment: Segment) -> Iterator[pq.ParquetFile]:
        """A file. Raises `StreamStateError` for a damaged or foreign file, and for offsets that its name denies."""
        path = f"{self._folder(place)}/{segment.name}"
        with self._fs.open_input_file(path) as source:
            try:
                file = pq.ParquetFile(source, pre_buffer=True)
                _require_archived(file, segment)
                yield file
            except FileNotFoundError:
                raise
            except (pa.ArrowInvalid, OSError) as error:
                msg = f"{path} of the archive cannot be read ({error}); bring a damaged file back from a copy"
                raise StreamStateError(msg) from error

    def _folder(self, place: Place) -> str:
        topic, partition = place
        return f"{self._root}/{topic}/{partition}"

    def _list(self, folder: str, kind: fs.FileType) -> list[fs.FileInfo]:
        found = self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return [info for info in found if info.type == kind]

    @staticmethod
    def _topic_id(schema: pa.Schema) -> str:
        metadata: Mapping[bytes, bytes] = schema.metadata or {}
        return metadata.get(_TOPIC_ID, b"").decode()


def opened(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder or a URI, and the path there.

    Raises `Misconfigured` for a URI unknown to Arrow, or with a credential, which errors and logs would show.
    """
    if _CREDENTIAL.search(uri):
        msg = "name the URI of the files without KEY:SECRET@; the environment, such as AWS_SECRET_ACCESS_KEY, has both"
        raise Misconfigured(msg)
    try:
        system, path = fs.FileSystem.from_uri(_absolute(uri))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        msg = f"{uri} cannot be opened ({str(error)[:_SHOWN]}); name a folder, or a URI such as s3://bucket/path"
        raise Misconfigured(msg) from error
    return system, path.rstrip("/")


def require_empty(uri: str) -> None:
    """Raise `Declined` for a folder or URI with files: readers would take files of another set for files of this."""
    system, path = opened(uri)
    if system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        msg = f"{uri} has files already; name a new folder, or remove the files"
        raise Declined(msg)


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


def _require_archived(file: pq.ParquetFile, segment: Segment) -> None:
    """Raise `ArrowInvalid` for other columns than the archiver's, and for offsets outside of `segment`."""
    if not file.schema_arrow.equals(SCHEMA):
        msg = f"its columns are {', '.join(f'{each.name} ({each.type})' for each in file.schema_arrow)}"
        raise pa.ArrowInvalid(msg)
    for first, last in _ranges(file.metadata, 0).values():
        if first < segment.first or last > segment.last:
            msg = f"it has the offsets {first} to {last}"
            raise pa.ArrowInvalid(msg)


def _ranges(metadata: pq.FileMetaData, column: int) -> dict[int, tuple[Any, Any]]:
    """The least and the greatest value of a column, by row group with rows."""
    groups = ((group, metadata.row_group(group).column(column).statistics) for group in range(metadata.num_row_groups))
    return {group: (found.min, found.max) for group, found in groups if found and found.has_min_max}


def _absolute(uri: str) -> str:
    """`uri` as Arrow reads it: a folder by its absolute path, and Hadoop's name for S3."""
    if uri.startswith("s3a://"):
        return uri.replace("s3a", "s3", 1)
    if uri.startswith(("gs://", "gcs://")) and _GS_RETRIES not in uri:
        return f"{uri}{'&' if '?' in uri else '?'}{_GS_RETRIES}=60"
    return uri if "://" in uri else str(Path(uri).resolve())
