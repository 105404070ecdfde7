"""Archived records, folded by Spark's workers straight from the files: the plan, and the work of a task.

Merged topics are folded by stream time, over all topics of a partition. So the archived records of a partition end at
the stream time of the first record that only Kafka has.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from streamstate.app import App
from streamstate.history.archive.files import Archive
from streamstate.kafka.history import TopicHistory
from streamstate.processing.decode import RawRecord, topics_with_header_ids
from streamstate.spark.backlog.merging import Cursor, Piece, merged, sized
from streamstate.spark.rows import framed_rows, marked, needs_headers, raw
from streamstate.spark.task import FoldTask, writer
from streamstate.state.store import TopicPartition

Offsets = Mapping[TopicPartition, int]

UNIT = 6_000
"""Records of a partition that are read together."""


class Stretch(NamedTuple):
    """Archived records of a fold in a partition: by topic, those from a first offset on, before an end.

    before: the stream time (milliseconds) from which on records wait for Kafka's; None: all are folded.
    """

    partition: int
    ranges: Mapping[str, tuple[int, int]]
    before: int | None

    @property
    def records(self) -> int:
        """The number of offsets."""
        return sum(end - start for start, end in self.ranges.values())


def plan(history: TopicHistory, app: App, offsets: Offsets, most: int) -> list[Stretch]:
    """The archived records from `offsets` on; none where Kafka has all of them, and they are at most `most`.

    Raises `ReplacedTopic` for an archive of a topic that was created anew since.
    """
    ends = history.archived(offsets)
    begins = history.topics.begins(offsets) if ends else {}
    if sum(end - offsets[place] for place, end in ends.items()) <= most and all(
        offsets[place] >= begin for place, begin in begins.items()
    ):
        return []
    stable = history.topics.ends(offsets)
    found = []
    # Tables first: later records find their rows.
    for fold in sorted(app.folds, key=lambda fold: not fold.sources[0].table):
        for partition in sorted({partition for topic, partition in ends if topic in fold.topics}):
            places = [(topic, partition) for topic in fold.topics if (topic, partition) in offsets]
            ranges = {place[0]: (offsets[place], ends[place]) for place in places if place in ends}
            unarchived = {place: ends.get(place, offsets[place]) for place in places}
            left = {place: end for place, end in unarchived.items() if end < stable[place]}
            found.append(Stretch(partition, ranges, _first_time(history, left) if len(fold.topics) > 1 else None))
    return found


def _first_time(history: TopicHistory, offsets: Offsets) -> int | None:
    """The least timestamp of the first records at `offsets`; None without records."""
    times = (history.first_timestamp(place, offset) for place, offset in offsets.items())
    return min((time for time in times if time is not None), default=None)


def shared(stretches: Iterable[Stretch], tasks: int) -> list[list[Stretch]]:
    """`stretches` in at most `tasks` lists of about equal length; a partition is in one list."""
    by_partition: dict[int, list[Stretch]] = {}
    for stretch in stretches:
        by_partition.setdefault(stretch.partition, []).append(stretch)
    lists: list[list[Stretch]] = [[] for _ in range(min(tasks, len(by_partition)))]
    for held in sorted(by_partition.values(), key=_records, reverse=True):
        min(lists, key=_records).extend(held)
    return lists


def _records(stretches: Iterable[Stretch]) -> int:
    return sum(stretch.records for stretch in stretches)


@dataclass(frozen=True)
class ArchiveTask:
    """The work of Spark's tasks on lists of stretches, committed by the writer of `task`."""

    task: FoldTask

    def __call__(self, lists: Iterable[Sequence[Stretch]]) -> None:
        """Commit all records. Raises as `FoldTask` does.

        A partition follows the other, in large commits. With a build rate, they advance together, each at its rate.
        """
        archive, out = Archive(self.task.settings.archive), writer(self.task)
        header_ids = topics_with_header_ids(self.task.app)
        for stretches in lists:
            waiting = [self._pieces(archive, stretch) for stretch in stretches]
            while waiting:
                # As many records as one commit takes.
                count, together = (1, waiting) if out.paced else (max(1, out.building_records // UNIT), waiting[:1])
                taken = [(pieces, list(islice(pieces, count))) for pieces in together]
                rows: defaultdict[TopicPartition, list[RawRecord]] = defaultdict(list)
                markers: defaultdict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
                for place, batch in (item for _, found in taken for piece in found for item in piece.items()):
                    rows[place] += framed_rows(batch) if place[0] in header_ids else raw(batch)
                    if place[0] in self.task.app.marked:
                        markers[place] |= marked(batch)
                out.write(rows, markers)
                ended = [pieces for pieces, found in taken if not found]
                waiting = [pieces for pieces in waiting if pieces not in ended]

    def _pieces(self, archive: Archive, stretch: Stretch) -> Iterator[Piece]:
        """The records of a stretch in the order of folding."""
        task, cursors = self.task, {}
        times = task.claims[stretch.partition].times
        for topic, (start, end) in stretch.ranges.items():
            columns = ["offset", "timestamp", "key", "value", *(["headers"] if needs_headers(task.app, topic) else [])]
            place = (topic, stretch.partition)
            once = topic in task.app.marked
            batches = archive.read(place, start, end, task.origins[topic].id, columns, emptied=once)
            cursors[place] = Cursor(sized(batches, UNIT // len(stretch.ranges)), times.get(topic, 0), stretch.before)
        yield from merged(cursors)
