"""The archiver: writes files of the partitions that are due."""

import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import structlog
from confluent_kafka import KafkaException, Message

from services.archive.settings import ArchiverSettings
from services.archive.status import ArchiverStatus, Progress
from streamstate.errors import Misconfigured, StreamStateError
from streamstate.history.archive.files import Archive
from streamstate.history.archive.planning import Unarchived, is_due
from streamstate.history.archive.rows import Row, batch, row
from streamstate.history.archive.segments import Segment, gaps
from streamstate.kafka.admin import Topics
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.reading import open_since
from streamstate.state.store import TopicPartition

log = structlog.get_logger()

_PIECE = 2_000
_PIECE_BYTES = 32 << 20
ALL = ("*", 0)
"""The place of faults of all partitions."""


class Schemas(Protocol):
    """Keeps the schemas of records."""

    def keep(self, topic: str, rows: Collection[Row]) -> None:
        """Keep the schemas of `rows`. Raises `RegistryUnavailable`, `OSError`."""


@dataclass(frozen=True)
class ArchivedPart:
    """The archive's part of a partition.

    topic_id, end: of the topic, and the next offset to archive; None without a file. written, record_bytes: of the
    newest file, as in `Unarchived`.
    """

    topic_id: str | None = None
    end: int | None = None
    written: float = 0.0
    record_bytes: float = 0.0


class Archiver:
    """Archives partitions of topics, one file of a partition at a time. For one thread."""

    def __init__(
        self, archive: Archive, topics: Topics, settings: ArchiverSettings, status: ArchiverStatus, schemas: Schemas
    ) -> None:
        self._archive = archive
        self._topics = topics
        self._settings = settings
        self._status = status
        self._schemas = schemas
        self._log = TopicHistory(topics)
        self._kept: dict[TopicPartition, ArchivedPart] = {}
        self._oldest: dict[TopicPartition, tuple[int, float]] = {}

    def turn(self, held: Collection[TopicPartition]) -> bool:
        """Write a file of each partition of `held` that is due. Returns whether a partition is due again."""
        self._status.turn()
        for known in (self._kept, self._oldest, self._status.progress, self._status.faults):
            for place in [place for place in known if place not in held]:
                known.pop(place)
        self._require_topics()
        try:
            begins, ends = self._topics.begins(held), self._topics.ends(held)
            limits = self._topics.retention_ms({topic for topic, _ in held})
        except KafkaException as error:
            self._failed(ALL, error)
            return False
        again = False
        for place in sorted(held):
            try:
                again |= self._tend(place, begins[place], ends[place], limits.get(place[0], math.inf) / 1_000)
                self._status.faults.pop(place, None)
            except Misconfigured as error:
                # An operator may move files away.
                self._kept.pop(place, None)
                self._failed(place, error)
            except (OSError, KafkaException, StreamStateError) as error:
                self._failed(place, error)
        return again

    def _require_topics(self) -> None:
        """Report topics that do not exist: the group gives no partitions of them."""
        for topic in self._settings.archive_topics:
            try:
                self._topics.origin(topic)
            except (KafkaException, Misconfigured) as error:
                self._failed((topic, -1), error)

    def ends(self) -> dict[TopicPartition, int]:
        """The next offsets to archive, of partitions with files."""
        return {place: kept.end for place, kept in self._kept.items() if kept.end is not None}

    def _tend(self, place: TopicPartition, begin: int, end: int, retention_s: float) -> bool:
        """Write a file of a partition if due. Returns whether the partition is due again."""
        if place not in self._kept:
            self._kept[place] = self._look(place, begin)
            self._status.count(place[0])
        kept = self._kept[place]
        start = begin if kept.end is None else max(begin, kept.end)
        self._status.progress[place] = Progress(
            start, begin, end, retention_s, self._left(place, start, end, retention_s)
        )
        self._require_uncut(kept, end)
        if not self._due(kept, start, end):
            return False
        topic_id = self._topics.describe([place[0]])[place[0]].id
        self._require_same(place, kept, topic_id)
        if kept.end is not None and begin > kept.end:
            log.error("Kafka deleted records before the archive had them", place=place, since=kept.end, before=begin)
            self._status.count(place[0], lost=begin - kept.end)
            self._kept[place] = replace(kept, end=begin)
        kept = self._kept[place] = self._written(place, start, end, topic_id)
        next_start = kept.end or 0
        self._status.progress[place] = replace(self._status.progress[place], end=next_start)
        return self._due(kept, next_start, end)

    def _due(self, kept: ArchivedPart, start: int, end: int) -> bool:
        backlog = Unarchived(start, end, kept.written, kept.record_bytes)
        return is_due(backlog, time.time(), self._settings.archive_seconds, self._settings.archive_bytes)

    def _look(self, place: TopicPartition, begin: int) -> ArchivedPart:
        """What the archive has of a partition, up to a gap that Kafka, with records from `begin` on, can fill."""
        files = self._archive.files(place)
        if not files:
            return ArchivedPart()
        newest = files[-1]
        segments = [file.segment for file in files]
        missing = [gap.first for gap in gaps(segments) if gap.first >= begin]
        end = min([max(segment.last for segment in segments) + 1, *missing])
        offsets = newest.segment.last - newest.segment.first + 1
        return ArchivedPart(self._archive.topic_id(place), end, newest.written, newest.size / offsets)

    @staticmethod
    def _require_uncut(kept: ArchivedPart, end: int) -> None:
        """Raise `Misconfigured` where Kafka has lost archived records."""
        if kept.end is not None and end < kept.end:
            msg = (
                f"Kafka ends at the offset {end}, and the archive at {kept.end}: Kafka lost records; move the files "
                f"from {end} on away, or write to a new topic"
            )
            raise Misconfigured(msg)

    @staticmethod
    def _require_same(place: TopicPartition, kept: ArchivedPart, topic_id: str) -> None:
        """Raise `Misconfigured` where the archive is of an earlier topic."""
        topic, _ = place
        if kept.topic_id not in (None, topic_id):
            msg = (
                f"the archive is of a topic {topic} with the id {kept.topic_id}, and Kafka has {topic_id}: the topic "
                f"was created anew; move the folder {topic} of the archive away"
            )
            raise Misconfigured(msg)

    def _written(self, place: TopicPartition, start: int, end: int, topic_id: str) -> ArchivedPart:
        """Write a file with the records from `start` on, before `end` or until the file is full."""
        began, last = time.monotonic(), end - 1
        with self._archive.writing(place, topic_id) as file, self._log.log(place, start) as read:
            for rows in self._rows(read.up_to(end)):
                self._schemas.keep(place[0], rows)
                file.add(batch(rows))
                if file.size >= self._settings.archive_bytes:
                    last = rows[-1][0]
                    break
            # While the records were read, Kafka may have deleted some, or the topic.
            if (
                self._topics.begins([place])[place] > start
                or self._topics.describe([place[0]])[place[0]].id != topic_id
            ):
                msg = f"Kafka deleted records of {place[0]}:{place[1]} while they were archived; they are read again"
                raise StreamStateError(msg)
            segment = Segment(start, last)
            file.keep(segment.name)
        self._status.count(place[0], files=1, size=file.size)
        log.info(
            "archived", file=f"{place[0]}/{place[1]}/{segment.name}", bytes=file.size, seconds=time.monotonic() - began
        )
        return ArchivedPart(topic_id, last + 1, time.time(), file.size / (last + 1 - start))

    def _rows(self, messages: Iterator[Message]) -> Iterator[list[Row]]:
        while rows := [row(message) for message in _piece(messages)]:
            self._status.turn()
            yield rows

    def _left(self, place: TopicPartition, start: int, end: int, retention_s: float) -> float:
        """The seconds until `retention.ms` may delete the record at `start`."""
        if math.isinf(retention_s) or start >= end:
            return retention_s
        if self._oldest.get(place, (None, 0.0))[0] != start:
            first_ms = open_since(self._settings.kafka, place, start, self._topics.security)
            self._oldest[place] = start, time.time() if first_ms is None else first_ms / 1_000
        return max(0.0, retention_s - (time.time() - self._oldest[place][1]))

    def _failed(self, place: TopicPartition, error: Exception) -> None:
        log.warning("not archived", topic=place[0], partition=place[1], reason=str(error))
        self._status.failures += 1
        self._status.faults[place] = str(error)


def _piece(messages: Iterator[Message]) -> Iterator[Message]:
    """The next messages, up to `_PIECE`, or until they have `_PIECE_BYTES`."""
    size = 0
    for message in islice(messages, _PIECE):
        yield message
        size += len(message.value() or b"")
        if size >= _PIECE_BYTES:
            return
