"""Comparison of an archive with the records that Kafka still has."""

from collections.abc import Iterator, Mapping

import msgspec

from streamstate import bootstrap
from streamstate.cli.archives.deleted import Deleted
from streamstate.errors import Misconfigured, StreamStateError
from streamstate.history.archive.files import Archive
from streamstate.history.archive.rows import Row, row
from streamstate.history.archive.segments import gaps
from streamstate.kafka.history import TopicHistory, TopicLog
from streamstate.settings import CommandSettings
from streamstate.state.store import TopicPartition

_RANGES, _RANGE = 5, 1_000
"""A sample: the number of ranges, and the offsets of each."""
_PIECE = 10_000
_SHOWN = 5


class Compared(msgspec.Struct):
    """A partition: the next offset to archive, Kafka's later records, the number of compared records, and faults."""

    topic: str
    partition: int
    end: int
    behind: int
    compared: int
    faults: list[str]


class ArchiveCheck:
    """Compares partitions of `archive` with Kafka."""

    def __init__(self, settings: CommandSettings, archive: Archive, deleted: Deleted) -> None:
        self._archive = archive
        self._deleted = deleted
        self._topics = bootstrap.topics(settings.kafka, settings.security)
        self._kafka = TopicHistory(self._topics)
        self._both = TopicHistory(self._topics, archive)

    def partition(self, place: TopicPartition, *, everything: bool) -> Compared:
        """Compare a partition: a sample of its records, or with `everything` all that both have."""
        segments = self._archive.segments(place)
        end = max((segment.last for segment in segments), default=-1) + 1
        found = Compared(*place, end, 0, 0, [])
        try:
            self._require_same(place)
        except StreamStateError as error:
            found.faults.append(str(error))
            return found
        [begin], [log_end] = self._topics.begins([place]).values(), self._topics.ends([place]).values()
        found.behind = max(0, log_end - max(end, begin))
        found.faults += [
            f"the offsets {gap.first} to {gap.last} lack: bring their file back from a copy" for gap in gaps(segments)
        ]
        if segments and end < begin:
            found.faults.append(f"Kafka deleted the offsets {end} to {begin - 1}: bring their records from a copy")
        if end > log_end:
            found.faults.append(f"Kafka ends at {log_end}: Kafka lost records; write to a new topic")
        if segments and not found.faults:
            start = max(begin, min(segments).first)
            compacted = bool(self._topics.compacted([place[0]]))
            erased = self._deleted.of(place, self._archive.topic_id(place))
            for since, before in _ranges(start, end, everything=everything):
                self._compare(found, range(since, before), erased, compacted=compacted)
        return found

    def _require_same(self, place: TopicPartition) -> None:
        """Raise `StreamStateError` where Kafka has no such topic, or another one."""
        held, known = self._archive.topic_id(place), self._topics.origin(place[0]).id
        if held not in (None, known):
            msg = f"the topic was created anew ({known}, not {held}): move the folder of the old topic away"
            raise Misconfigured(msg)

    def _compare(self, found: Compared, offsets: range, erased: Mapping[bytes, int], *, compacted: bool) -> None:
        place, since, before = (found.topic, found.partition), offsets.start, offsets.stop
        try:
            with self._both.log(place, since) as kept, self._kafka.log(place, since) as sent:
                for stop in range(min(since + _PIECE, before), before + _PIECE, _PIECE):
                    archived, records = _rows(kept, min(stop, before)), _rows(sent, min(stop, before))
                    found.compared += len(records)
                    found.faults += _differences(archived, records, erased, compacted=compacted)
        except StreamStateError as error:
            found.faults.append(str(error))


def _ranges(start: int, end: int, *, everything: bool) -> Iterator[tuple[int, int]]:
    """Ranges of offsets to compare."""
    if everything or end - start <= _RANGES * _RANGE:
        yield start, end
    else:
        for number in range(_RANGES):
            since = start + (end - _RANGE - start) * number // (_RANGES - 1)
            yield since, since + _RANGE


def _rows(log: TopicLog, before: int) -> dict[int, Row]:
    return {made[0]: made for made in map(row, log.up_to(before))}


def _differences(
    archived: Mapping[int, Row], records: Mapping[int, Row], erased: Mapping[bytes, int], *, compacted: bool
) -> list[str]:
    """What differs between rows of the archive and records of Kafka, by offset."""
    faults = []
    for offset in sorted({*archived, *records}):
        kept, sent = archived.get(offset), records.get(offset)
        if kept is None and sent is not None:
            *_, key, _value, _headers = sent
            if key is None or offset >= erased.get(key, 0):
                faults.append(f"the archive lacks offset {offset}: move its file away, and archive the range again")
        elif sent is None and not compacted:
            faults.append(f"Kafka lacks offset {offset} of the archive")
        elif sent is not None and kept != sent:
            faults.append(f"offset {offset} differs: move its file away, and archive the range again")
    return faults[:_SHOWN]
