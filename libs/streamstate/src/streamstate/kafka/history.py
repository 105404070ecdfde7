"""The history of topics: the records in an archive, then the records in Kafka."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streamstate.errors import Misconfigured, StreamStateError
from streamstate.history.archive.segments import Segment, covered, gaps
from streamstate.kafka.admin import Topics
from streamstate.kafka.reading import consumer, read_to_end
from streamstate.state.store import TopicPartition as Place

if TYPE_CHECKING:
    import pyarrow as pa

    from streamstate.history.archive.files import Archive

TIMEOUT_S = 30.0
_PIECE = 2_000


@dataclass(frozen=True)
class TopicHistory:
    """The topics of Kafka, and their records in `archive`, if there is one."""

    topics: Topics
    archive: "Archive | None" = None

    def log(self, place: Place, start: int = 0, *, emptied: bool = False) -> "TopicLog":
        """The log of a partition, from the offset `start` on.

        emptied: whether with the archived records of deleted users of which only the markers are left.
        """
        return TopicLog(self, place, start, emptied=emptied)

    def whole(self, topic: str, *, emptied: bool = False) -> Iterator[Message]:
        """The records of `topic` up to the present ends, partition by partition. Raises as `TopicLog.up_to` does."""
        for place, end in self.topics.ends((topic, p) for p in range(self.topics.partitions(topic))).items():
            with self.log(place, emptied=emptied) as log:
                yield from log.up_to(end)

    def begins(self, places: Iterable[Place]) -> dict[Place, int]:
        """The first offsets from which archive and Kafka together have all records, by topic and partition."""
        return {
            place: _begin(self.archive.segments(place) if self.archive and begin else [], begin)
            for place, begin in self.topics.begins(places).items()
        }

    def archived(self, offsets: Mapping[Place, int]) -> dict[Place, int]:
        """The ends of the archive from `offsets` on, of the partitions with an archived record there.

        Raises `Misconfigured` for an archive of a topic that was created anew since.
        """
        if not (archive := self.archive):
            return {}
        ends = {place: covered(archive.segments(place), offset) for place, offset in offsets.items()}
        found = {place: end for place, end in ends.items() if end > offsets[place]}
        for place in found:
            if (held := archive.topic_id(place)) != (now := self.topics.origin(place[0]).id):
                msg = (
                    f"the archive {archive.uri} has records of a topic {place[0]} with the id {held}, and Kafka has "
                    f"{now}: the topic was created anew; move the folder away, and archive the new topic"
                )
                raise Misconfigured(msg)
        return found

    def require_no_gap(self, positions: Mapping[Place, int]) -> None:
        """Raise `Misconfigured` where a state at `positions` would pass archived records and then lack records."""
        if not self.archive:
            return
        for place, begin in self.topics.begins(positions).items():
            if positions[place] >= begin or not (segments := self.archive.segments(place)):
                continue
            start = max(positions[place], segments[0].first)
            if start < (end := covered(segments, start)) < begin:
                following = min([begin, *(segment.first for segment in segments if segment.first > end)])
                msg = (
                    f"the archive {self.archive.uri} lacks the offsets {end} to {following - 1} of "
                    f"{place[0]}:{place[1]}, which Kafka has deleted: bring their file back, or move the files before "
                    "them away to build a state without these records"
                )
                raise Misconfigured(msg)

    def left(self, places: Iterable[Place]) -> dict[str, float]:
        """The seconds until Kafka may delete a topic's first record that is not archived, as `Topics.history`.

        Infinite where the archive has the first records: the archiver's metric tells about further records.
        """
        all_places = [*places]
        left = self.topics.history(all_places)
        limited = {topic for topic, seconds in left.items() if seconds < math.inf}
        lacking = self._lacking([place for place in all_places if place[0] in limited]) if limited else set()
        return {topic: seconds if topic in lacking else math.inf for topic, seconds in left.items()}

    def _lacking(self, places: Sequence[Place]) -> set[str]:
        """The topics with records, of which the archive lacks some that Kafka has deleted, or has none."""
        begins, ends = self.topics.begins(places) if self.archive else {}, self.topics.ends(places)
        found = set[str]()
        for place in places:
            segments = self.archive.segments(place) if self.archive else []
            archived = bool(segments) and segments[0].first == _begin(segments, begins[place]) == 0
            if not archived and (segments or ends[place]):
                found.add(place[0])
        return found

    def timestamps(self, places: Sequence[Place]) -> list[int]:
        """The timestamps (milliseconds) of the first records, and of the latest, of partitions with records."""
        found = self.topics.timestamps(places)
        if archive := self.archive:
            for place in places:
                segments = archive.segments(place)
                for segment in (*segments[:1], *segments[-1:]):
                    found += archive.times(place, segment) or ()
        return found

    def first_timestamp(self, place: Place, offset: int) -> int | None:
        """The timestamp (milliseconds) of the first record in Kafka from `offset` on; None without one."""
        first = next(read_to_end(self.topics.bootstrap, {place: offset}, self.topics.security), None)
        return None if first is None else first.timestamp()[1]


def _begin(segments: Sequence[Segment], begin: int) -> int:
    """The first offset from which `segments` reach `begin`, Kafka's first offset; without one, `begin`."""
    runs = [*(segment.first for segment in segments[:1]), *(gap.last + 1 for gap in gaps(segments))]
    start = max((first for first in runs if first < begin), default=begin)
    return start if covered(segments, start) >= begin else begin


class TopicLog:
    """Reads a partition step by step up to given offsets, committed records only. A context manager.

    Records in the archive are read from there, and the others from Kafka.
    """

    def __init__(self, history: TopicHistory, place: Place, start: int, *, emptied: bool) -> None:
        self.topic, self._partition = place
        self._history = history
        self._place = place
        self._position = start
        self._emptied = emptied
        self._ahead: list[Message] = []
        self._archived: Iterator[list[Message]] = iter(())
        self._archive_end = start
        self._consumer: Consumer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._consumer:
            self._consumer.close()

    def up_to(self, offset: int) -> Iterator[Message]:
        """The records from the end of the last call to before `offset`.

        Raises `StreamStateError` when the records do not arrive, or when Kafka has deleted records that the archive
        lacks, and `ReplacedTopic` for an archive of a topic that was created anew since.
        """
        while self._position < offset:
            if not self._ahead:
                self._ahead = self._next()
            while self._ahead and (self._ahead[-1].offset() or 0) < offset:
                message = self._ahead.pop()
                if (error := message.error()) is None:
                    self._position = (message.offset() or 0) + 1
                    yield message
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
            if self._ahead:
                # A record at `offset` or after it, or the end of the partition there.
                self._position = offset

    def _next(self) -> list[Message]:
        """The next records, newest first, so that popping the oldest is cheap; none at the end of the archive."""
        if self._consumer:
            return self._received(self._consumer)
        if piece := next(self._archived, None):
            return piece
        self._position = max(self._position, self._archive_end)
        if not self._open_archive():
            self._consumer = self._assigned()
        return []

    def _open_archive(self) -> bool:
        """Whether the archive has the record at the position; opens the archive there."""
        if not (archive := self._history.archive):
            return False
        self._archive_end = covered(archive.segments(self._place), self._position)
        topic_id = self._history.topics.origin(self.topic).id
        batches = archive.read(self._place, self._position, self._archive_end, topic_id, emptied=self._emptied)
        self._archived = (piece for batch in batches for piece in _pieces(batch, self._place))
        return self._archive_end > self._position

    def _assigned(self) -> Consumer:
        """Kafka's records from the position on. Raises `StreamStateError` for deleted records."""
        opened = consumer(self._history.topics.bootstrap, self._history.topics.security, "read_committed")
        low, _high = opened.get_watermark_offsets(TopicPartition(*self._place), timeout=TIMEOUT_S)
        if low > self._position:
            opened.close()
            lacking = f", and {self._history.archive.uri} lacks the records" if self._history.archive else ""
            msg = (
                f"{self.topic}:{self._partition} begins at offset {low} in Kafka{lacking}: the records from offset "
                f"{self._position} on are deleted, and cannot be read again"
            )
            raise StreamStateError(msg)
        opened.assign([TopicPartition(*self._place, self._position)])
        return opened

    def _received(self, opened: Consumer) -> list[Message]:
        """The received records; waits for one record at most. Raises `StreamStateError` when there is none."""
        if (first := opened.poll(TIMEOUT_S)) is None:
            msg = f"{self.topic}:{self._partition} cannot be read from {self._position} on; check Kafka and run again"
            raise StreamStateError(msg)
        return [*reversed(opened.consume(_PIECE, 0)), first]


def _pieces(batch: "pa.RecordBatch", place: Place) -> Iterator[list[Message]]:
    """The archived records of `batch` as Kafka's messages, in lists of which each is newest first."""
    for start in range(0, batch.num_rows, _PIECE):
        yield messages(batch.slice(start, _PIECE), place)[::-1]


def messages(batch: "pa.RecordBatch", place: Place) -> list[Message]:
    """The archived records of `batch` as Kafka's messages."""
    topic, partition = place
    return [
        Message(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp=(kind, timestamp),
            key=key,
            value=value,
            headers=None if headers is None else [(header["key"], header["value"]) for header in headers],
        )
        for offset, timestamp, kind, key, value, headers in zip(
            *(batch[name].to_pylist() for name in batch.schema.names), strict=True
        )
    ]
