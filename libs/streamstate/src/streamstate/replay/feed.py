"""Records of several logs in the order of a build from nothing: by stream time, and by offset within a log."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from confluent_kafka import Message

from streamstate.app import Record, Source
from streamstate.keys import MARKER_HEADER
from streamstate.processing.decode import Admission, RawRecord, Refusal, decode_records, raw_record
from streamstate.state.store import TopicPartition

_LATER = 1_000
"""So many later records in turn end the search for records behind a later timestamp."""

_ANY_TIME = 2**63 - 1

Late = Callable[[int, int], None]
"""Called with the timestamp and the stream time (milliseconds) of a record behind a later timestamp."""


class Dated(NamedTuple):
    """A record in the order of folding.

    time: the stream time of its log, in milliseconds. rank: the index of its topic among the topics of the app.
    """

    time: int
    rank: int
    partition: int
    raw: RawRecord
    topic: str
    marker: bytes | None

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def offset(self) -> int:
        return self.raw[0]


def dated(
    messages: Iterable[Message],
    source: Source[Any, Any],
    rank: int,
    partition: int,
    refused: Mapping[int, Refusal],
    late: Late | None = None,
    time: int = 0,
) -> Iterator[Dated]:
    """`messages` of a partition with their stream times, which begin at `time` (milliseconds).

    As in Kafka's search by timestamp, every record moves the time on, also a record that cannot be decoded.
    refused: by offset, the records that the stream left out of decoding; they move no time.
    """
    for message in messages:
        record = raw_record(message, header_ids=source.header_ids)
        if record[0] not in refused:
            if late and record[1] < time and _is_event(source, record, partition):
                late(record[1], time)
            time = max(time, record[1])
        yield Dated(time, rank, partition, record, source.topic, _marker(message) if source.marked else None)


def _is_event(source: Source[Any, Any], record: RawRecord, partition: int) -> bool:
    decoded = decode_records(source, [record], (None, 0), (partition, partition + 1), Admission(_ANY_TIME))
    if decoded.held:
        raise decoded.held.error
    return isinstance(decoded.entries[0], Record)


def _marker(message: Message) -> bytes | None:
    value = dict(message.headers() or ()).get(MARKER_HEADER)
    return value if isinstance(value, bytes) else None


class Overtaken:
    """What records behind later timestamps mean for answers as of `times`, in milliseconds and ascending.

    records: the number of records that an answer lacks, since a later timestamp came before them in their log.
    """

    def __init__(self, times: Sequence[int]) -> None:
        self.records = 0
        self._times = times
        self._lacking = bytearray(len(times))

    def __call__(self, timestamp: int, stream_time: int) -> None:
        begin, end = bisect_left(self._times, timestamp), bisect_left(self._times, stream_time)
        if begin < end:
            self.records += 1
            self._lacking[begin:end] = b"\1" * (end - begin)

    @property
    def answers(self) -> int:
        """The number of answers that lack a record."""
        return self._lacking.count(1)


class MergedLogs:
    """The records of several logs, each read once. At equal stream times, they come by rank, then by partition.

    logs: the records of each log in the order of `dated`.
    """

    def __init__(self, logs: Iterable[Iterator[Dated]]) -> None:
        self._following: dict[TopicPartition, tuple[Dated, Iterator[Dated]]] = {}
        for log in logs:
            self._advance(log)

    def until(self, time: int) -> Iterator[Dated]:
        """The next records with stream times up to `time`, in milliseconds."""
        while self._following and (first := min(self._heads())).time <= time:
            yield self._taken(first)

    def before(self, offsets: Mapping[TopicPartition, int]) -> Iterator[Dated]:
        """The next records before `offsets`, and the records of logs without an offset that precede these records."""
        while inside := [head for head in self._heads() if head.offset < offsets.get(head.place, 0)]:
            first = min(inside)
            beside = [head for head in self._heads() if head.place not in offsets]
            yield self._taken(min([first, *beside]))

    def look_ahead(self, time: int) -> None:
        """Read on for late records, until `_LATER` records in turn of each log have timestamps after `time`."""
        for head, log in self._following.values():
            later = 0
            for record in chain([head], log):
                later = later + 1 if record.raw[1] > time else 0
                if later == _LATER:
                    break
        self._following.clear()

    def _heads(self) -> list[Dated]:
        return [head for head, _ in self._following.values()]

    def _taken(self, head: Dated) -> Dated:
        _, log = self._following.pop(head.place)
        self._advance(log)
        return head

    def _advance(self, log: Iterator[Dated]) -> None:
        if head := next(log, None):
            self._following[head.place] = head, log
