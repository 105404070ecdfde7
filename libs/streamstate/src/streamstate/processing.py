"""From the raw records of one partition to one commit: the decisions, without any I/O."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streamstate.app import Emit, Found, Record, Source
from streamstate.errors import BadRecord
from streamstate.keys import partition_of
from streamstate.state import Operation

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
    """Records that can be folded, those that cannot, and how many keys are not where the partitioner puts them."""

    records: Sequence[Record[Any, Any]]
    dead: Sequence[DeadLetter]
    misplaced: int

    @property
    def counters(self) -> dict[str, int]:
        counts = {DEAD: len(self.dead), MISPLACED: self.misplaced}
        return {name: count for name, count in counts.items() if count}


def sift(source: Source[Any, Any], raw: Iterable[RawRecord], partition: int, partitions: int) -> Sifted:
    """Decode the records of one partition of a topic that has `partitions`.

    A misplaced key (the producer used another partitioner) is counted and still folded where it was found: its
    partition came with the record, and dropping it would lose an event.
    """
    decode_key, decode = source.key.decode, source.decode
    records: list[Record[Any, Any]] = []
    dead: list[DeadLetter] = []
    misplaced = 0
    for offset, timestamp, raw_key, value in raw:
        try:
            key = decode_key(raw_key)
            records.append(Record(key, decode(key, value), offset, timestamp))
        except (BadRecord, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            dead.append(DeadLetter(offset, raw_key, value, error))
        else:
            misplaced += partition_of(raw_key or b"", partitions) != partition
    return Sifted(records, dead, misplaced)


def fold(
    source: Source[Any, Any], records: Sequence[Record[Any, Any]], found: Found
) -> tuple[list[Operation], list[Emit]]:
    """What the fold of `source` wants written, and what it wants produced."""
    operations: list[Operation] = []
    emits: list[Emit] = []
    for effect in source.fold(records, found):
        if isinstance(effect, Emit):
            emits.append(effect)
        else:
            operations.append(effect)
    return operations, emits


def after(raw: Iterable[RawRecord], position: int) -> Iterator[RawRecord]:
    """The records from `position` on; those before it are in the state already."""
    return (record for record in raw if record[0] >= position)
