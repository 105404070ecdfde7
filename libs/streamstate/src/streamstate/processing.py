"""From the raw records of one partition to one commit: the decisions, without any I/O."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamstate.app import Count, Emit, Fold, Found, Record, Source
from streamstate.errors import BadRecord
from streamstate.keys import partition_of
from streamstate.state import Operation, Step

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
class Sifted:
    """Records that can be folded, those that cannot, how many keys are not where the partitioner puts them.

    `step` is what they move in their topic.
    """

    records: Sequence[Record[Any, Any]]
    dead: Sequence[DeadLetter]
    misplaced: int
    step: Step

    @property
    def counters(self) -> dict[str, int]:
        return {DEAD: len(self.dead), MISPLACED: self.misplaced}


@dataclass(frozen=True, slots=True)
class Folded:
    """What a commit writes, and what is produced before it."""

    operations: Sequence[Operation]
    counters: Mapping[str, int]
    emits: Sequence[Emit]


def sift(
    source: Source[Any, Any], raw: Iterable[RawRecord], at: tuple[int | None, int], partition: int, partitions: int
) -> Sifted:
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
    return Sifted(records, dead, misplaced, Step(topic, at[0], position, time))


def merge(sifted: Sequence[Sifted]) -> Sequence[Record[Any, Any]]:
    """The records of all in one order: by stream time, at a tie in the order given; offsets stay in order."""
    if len(sifted) == 1:
        return sifted[0].records
    return list(heapq.merge(*(some.records for some in sifted), key=lambda record: record.stream_time))


def apply(fold: Fold, records: Sequence[Record[Any, Any]], sifted: Iterable[Sifted], found: Found) -> Folded:
    """What `fold` wants written for `records`, counted together with what was sifted out of them."""
    operations: list[Operation] = []
    emits: list[Emit] = []
    counters: Counter[str] = Counter()
    for some in sifted:
        counters.update(some.counters)
    for effect in fold.apply(records, found):
        if isinstance(effect, Emit):
            emits.append(effect)
        elif isinstance(effect, Count):
            counters[effect.what] += effect.by
        else:
            operations.append(effect)
    return Folded(operations, +counters, emits)
