"""From the raw records of one partition to typed ones, without any I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamstate.app import Record, Source
from streamstate.errors import BadRecord
from streamstate.keys import partition_of
from streamstate.state.store import OffsetAdvance

DEAD = "dead_letters"
MISPLACED = "misplaced_keys"

RawRecord = tuple[int, int, bytes | None, bytes | None]
"""Offset, Kafka timestamp (milliseconds), key, value."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that the app cannot use, and why."""

    offset: int
    key: bytes | None
    value: bytes | None
    error: Exception


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records that can be folded, those that cannot, how many keys are not where the partitioner puts them.

    `step` is what they move in their topic.
    """

    records: Sequence[Record[Any, Any]]
    dead: Sequence[DeadLetter]
    misplaced: int
    step: OffsetAdvance

    @property
    def counters(self) -> dict[str, int]:
        return {DEAD: len(self.dead), MISPLACED: self.misplaced}


def decode_records(
    source: Source[Any, Any], raw: Iterable[RawRecord], at: tuple[int | None, int], partition: int, partitions: int
) -> Decoded:
    """Decode the records of one partition of a topic that has `partitions`.

    `at` is the stored offset (None: nothing is stored) and the stream time there; records before it are left out, as
    they are in the state already. A misplaced key (the producer used another partitioner) is counted and still folded
    where it was found: its partition came with the record, and dropping it would lose an event.
    """
    topic, decode_key, decode = source.topic, source.key.decode, source.decode
    records: list[Record[Any, Any]] = []
    dead: list[DeadLetter] = []
    misplaced = 0
    position, time = at[0] or 0, at[1]
    for offset, timestamp, raw_key, value in raw:
        if offset < position:
            continue
        position = offset + 1
        if timestamp > time:
            time = timestamp
        try:
            key = decode_key(raw_key)
            records.append(Record(topic, key, decode(key, value), offset, timestamp, time))
        except (BadRecord, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            dead.append(DeadLetter(offset, raw_key, value, error))
        else:
            misplaced += partition_of(raw_key or b"", partitions) != partition
    return Decoded(records, dead, misplaced, OffsetAdvance(topic, at[0], position, time))
