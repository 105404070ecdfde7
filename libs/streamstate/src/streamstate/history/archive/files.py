"""The files of an archive, in any file system of Arrow: `<topic>/<partition>/<first>-<last>.parquet`.

A file is written under another name and renamed when it is complete, so each named file is whole.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from pyarrow import fs

from streamstate.errors import Misconfigured, StreamStateError
from streamstate.history.archive.segments import Section, Segment, covered, named, sections
from streamstate.history.archive.unfinished import ROW_GROUP, Unfinished, write_text, writing
from streamstate.history.archive.uris import opened

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
broker's; `EMPTIED`. headers: in their order, null without headers."""

EMPTIED = TIMESTAMP_NOT_AVAILABLE
"""The `timestamp_type` of a deleted user's record in a derived topic: the value is null, the marker the only header.

A fold without repeats needs the marker: else a repeat behind the deletion would be the first record.
"""

_TOPIC_ID = b"streamstate.topic_id"
SCHEMAS = "_schemas"
"""The folder of schemas, and perhaps of the partitions of a topic with this name."""

_TRIES = 3
"""Listings without the next offset, after which the offset counts as missing."""

_LISTINGS = 100
"""Listings of a folder in which a file went away, after which the next may fail."""

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
        """The files of a partition, by offset: as two listings in a row have them.

        A compaction names a joined file and deletes its parts; a single listing at that time may lack both.
        """
        found = self.listed(place)
        while (again := self.listed(place)) != found:
            found = again
        return found

    def listed(self, place: Place) -> list[Archived]:
        """The files of a partition in one listing, which is not atomic."""
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
        *,
        emptied: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The rows with offsets from `start` on, before `stop` (None: the first offset without a segment), by offset.

        emptied: whether with the rows of deleted users of which only the markers are left. Raises `StreamStateError`
        for an offset before `stop` without a segment, and `ReplacedTopic` when a file is of a topic with another id
        than `topic_id` (None: any id).
        """
        reached, tries = start, 0
        end = covered(self.segments(place), start) if stop is None else stop
        while reached < end:
            if tries == _TRIES:
                raise _lacking(self.uri, place, reached)
            tries += 1
            for section in sections(self.segments(place), reached, end):
                try:
                    for batch in self._rows(place, section, topic_id, columns, emptied=emptied):
                        yield batch
                        reached, tries = batch["offset"][-1].as_py() + 1, 0
                except FileNotFoundError:
                    # A compaction joined the file with others after the look at the names.
                    break
                reached, tries = section.stop, 0

    def rows(
        self,
        place: Place,
        segments: Sequence[Segment],
        columns: Sequence[str] = tuple(SCHEMA.names),
        *,
        emptied: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """All rows of consecutive files, by offset; `emptied` as of `read`. Raises `FileNotFoundError`."""
        for section in sections(segments, min(segments).first):
            yield from self._rows(place, section, None, columns, emptied=emptied)

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
        for info in self._infos(self._folder(place)):
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
        self, place: Place, section: Section, topic_id: str | None, columns: Sequence[str], *, emptied: bool
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
            wanted = list(dict.fromkeys(("offset", *columns, *([] if emptied else ["timestamp_type"]))))
            for batch in file.iter_batches(ROW_GROUP, groups, wanted) if groups else ():
                begin, end = np.searchsorted(batch["offset"].to_numpy(), (section.start, section.stop))
                found = batch.slice(begin, end - begin)
                if not emptied:
                    found = found.filter(pc.not_equal(found["timestamp_type"], pa.scalar(EMPTIED, pa.int8())))
                if found.num_rows:
                    yield found

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
        return [info for info in self._infos(folder) if info.type == kind]

    def _infos(self, folder: str) -> list[fs.FileInfo]:
        """The contents of a folder, none without the folder."""
        selector = fs.FileSelector(folder, allow_not_found=True)
        for _ in range(_LISTINGS):
            # Arrow fails where a file is renamed or deleted meanwhile.
            with suppress(FileNotFoundError):
                return self._fs.get_file_info(selector)
        return self._fs.get_file_info(selector)

    @staticmethod
    def _topic_id(schema: pa.Schema) -> str:
        metadata: Mapping[bytes, bytes] = schema.metadata or {}
        return metadata.get(_TOPIC_ID, b"").decode()


def _lacking(uri: str, place: Place, offset: int) -> StreamStateError:
    msg = (
        f"the archive {uri} lacks the offset {offset} of {place[0]}:{place[1]}, which it had before: run the command "
        "again; if the file is gone, bring it back from a copy"
    )
    return StreamStateError(msg)


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
