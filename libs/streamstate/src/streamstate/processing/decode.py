"""Decoding of one partition's raw records, without any I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from confluent_kafka import Message

from streamstate.app import App, Record, Source
from streamstate.errors import BadRecord, RegistryUnavailable, UnknownSchema
from streamstate.keys import PARTITIONERS, Headers, Marker
from streamstate.keys.framed import Framed
from streamstate.keys.unread import Unread

DEAD = "dead_letters"
DEAD_FOR = f"{DEAD}: "
"""The prefix of the counters of dead letters by reason."""

MISPLACED = "misplaced_keys"

RawRecord = tuple[int, int, bytes | None, bytes | None]
"""Offset, Kafka timestamp (milliseconds), key, value."""

KEY_ID, VALUE_ID = "__key_schema_id", "__value_schema_id"
"""The headers with the schema ids of records, where keys and values do not begin with the ids."""

Position = tuple[int | None, int]
"""Next offset of a topic (None: nothing is stored), and stream time there in milliseconds."""

Markers = Mapping[int, bytes]
"""The header `streamstate.source` of records, by offset."""

Stage = Literal["decode", "schema", "timestamp", "fold", "skip"]
"""Where a record was refused; `schema`: its id was unknown; `skip`: by an operator.

Only `decode` can be recomputed from the record alone.
"""


class Refusal(NamedTuple):
    """Where and why a record was refused."""

    stage: Stage
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An unusable record, and the reason. `topic`, `timestamp` and `stream_time` are as of a `Record`."""

    topic: str
    offset: int
    timestamp: int
    stream_time: int
    key: bytes | None
    value: bytes | None
    stage: Stage
    error: Exception

    @property
    def reason(self) -> str:
        """The stage, and the exception of a decoder or a fold, without its message, which may quote the record."""
        raised = f": {type(self.error).__name__}" if self.stage in ("decode", "fold") else ""
        return f"{self.stage}{raised}"


@dataclass(frozen=True, slots=True)
class Held:
    """The offset at which a topic waits for the schema registry; `stream_time` is as of the waiting record."""

    stream_time: int
    error: RegistryUnavailable


Entry = Record[Any, Any] | DeadLetter


@dataclass(frozen=True, slots=True)
class Decoded:
    """The records in the order of their offsets, and the offsets of records whose key belongs to another partition.

    held: why further records wait, None without waiting records.
    """

    entries: Sequence[Entry]
    misplaced: Set[int]
    held: Held | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """The records to decode: with timestamps from 0 to `latest` (milliseconds), except at the offsets `refused`."""

    latest: int
    refused: Mapping[int, Refusal] = field(default_factory=dict)


def topics_with_header_ids(app: App) -> frozenset[str]:
    """The topics whose schema ids are in headers."""
    return frozenset(source.topic for source in app.sources if source.header_ids)


def framed(headers: Headers | None, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record behind the schema ids of its headers."""
    ids = dict(headers or ())
    before = {name: id_ for name in (KEY_ID, VALUE_ID) if isinstance(id_ := ids.get(name), bytes)}
    return (
        None if key is None else before.get(KEY_ID, b"") + key,
        None if value is None else before.get(VALUE_ID, b"") + value,
    )


def raw_record(message: Message, *, header_ids: bool) -> RawRecord:
    """A record of Kafka's client."""
    key, value = message.key(), message.value()
    if header_ids:
        key, value = framed(message.headers(), key, value)
    return message.offset() or 0, message.timestamp()[1], key, value


def decode_records(
    source: Source[Any, Any], raw: Iterable[RawRecord], stored: Position, place: tuple[int, int], admission: Admission
) -> Decoded:
    """Decode the records of one partition of a topic; `place` is the partition, and the partition count of the topic.

    Records before the `stored` position are left out. Only decoded records advance the stream time; the fold may refuse
    more. A misplaced key (of a producer with another partitioner) is reported and still folded in its partition: a
    skipped record would be lost.
    """
    topic, decode_key, decode, times = source.own_name, source.key.decode, source.decode, source.times
    if source.marked:
        # Of a deleted user's record in the archive, only the marker is left.
        decode = partial(_unless_null, decode)
    partition, partitions = place
    partition_of = PARTITIONERS[source.partitioner]
    framed, unread = isinstance(source.key, Framed), isinstance(source.key, Unread)
    entries: list[Entry] = []
    misplaced: set[int] = set()
    next_offset, time = stored[0] or 0, stored[1]
    for offset, timestamp, raw_key, value in raw:
        if offset < next_offset:
            continue
        next_offset = offset + 1
        if not 0 <= timestamp <= admission.latest or offset in admission.refused:
            stage, reason = admission.refused.get(offset) or _out_of_time(timestamp)
            entries.append(DeadLetter(topic, offset, timestamp, time, raw_key, value, stage, BadRecord(reason)))
            continue
        try:
            key = decode_key(raw_key)
            content = decode(key, value)
            if times:
                times(content, timestamp)
        except MemoryError:
            raise
        except RegistryUnavailable as error:
            return Decoded(entries, misplaced, Held(max(time, timestamp), error))
        except Exception as error:  # noqa: BLE001, a decoder may raise any error for a record
            refused: Stage = "schema" if isinstance(error, UnknownSchema) else "decode"
            entries.append(DeadLetter(topic, offset, timestamp, time, raw_key, value, refused, error))
            continue
        time = max(time, timestamp)
        entries.append(Record(topic, key, content, offset, timestamp, time))
        # A key of another schema is read where a key of the declared schema would be.
        if not unread and partition_of(source.key.encode(key) if framed else raw_key or b"", partitions) != partition:
            misplaced.add(offset)
    return Decoded(entries, misplaced)


def _unless_null(decode: Callable[[Any, bytes | None], Any], key: Any, value: bytes | None) -> Any:
    return None if value is None else decode(key, value)


def reasons(counters: Mapping[str, int]) -> dict[str, int]:
    """The number of dead letters in `counters` by reason."""
    return {name.removeprefix(DEAD_FOR): count for name, count in counters.items() if name.startswith(DEAD_FOR)}


def mark(entries: Iterable[Entry], markers: Markers) -> None:
    """Give each record the marker of its header."""
    if not markers:
        return
    for entry in entries:
        if isinstance(entry, Record) and (header := markers.get(entry.offset)):
            entry.marker = Marker.decode(header)


def _out_of_time(timestamp: int) -> Refusal:
    if timestamp < 0:
        # Spark uses another calendar for such timestamps, so the exact time is unknown.
        return Refusal("timestamp", "the timestamp is before 1970; the producer has to set it")
    return Refusal("timestamp", f"the timestamp {timestamp} is too far in the future")
