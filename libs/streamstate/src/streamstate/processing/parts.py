"""What a batch holds for one fold in one partition, and how it is cut."""

import heapq
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from streamstate.app import Fold, Record
from streamstate.processing.decode import DEAD, DEAD_FOR, MISPLACED, DeadLetter, Decoded, Entry, Held, RawRecord
from streamstate.state.operations import Read
from streamstate.state.store import OffsetAdvance, TopicPartition


@dataclass(frozen=True)
class FoldBatch:
    """The `entries` for `fold` in `partition`, in the order in which they are folded.

    raw: the raw records by topic. misplaced: topic and offset of the records whose key belongs to another partition.
    Topics are as the service calls them.
    """

    fold: Fold
    partition: int
    entries: Sequence[Entry]
    raw: Mapping[str, Sequence[RawRecord]]
    misplaced: Set[tuple[str, int]]

    @cached_property
    def records(self) -> Sequence[Record[Any, Any]]:
        return [entry for entry in self.entries if isinstance(entry, Record)]

    @cached_property
    def kept(self) -> Sequence[Record[Any, Any]]:
        """The records that are not of erased users."""
        return [record for record in self.records if not record.erased]

    @cached_property
    def dead(self) -> Sequence[DeadLetter]:
        return [entry for entry in self.entries if isinstance(entry, DeadLetter)]

    @cached_property
    def lookups(self) -> Mapping[str, set[Any]]:
        """The rows of tables that the fold asks for; raises what the fold's own function raises."""
        return {table: set(keys) for table, keys in self.fold.lookups(self.kept).items()} if self.kept else {}

    @cached_property
    def reads(self) -> Sequence[Read]:
        """What the fold asks for of the partition's own state; raises what the fold's own function raises."""
        return list(self.fold.reads(self.kept)) if self.kept else []

    @property
    def counters(self) -> dict[str, int]:
        records = self.records if self.misplaced else ()
        misplaced = sum((record.topic, record.offset) in self.misplaced for record in records)
        by_reason = Counter(DEAD_FOR + letter.reason for letter in self.dead)
        return {DEAD: len(self.dead), MISPLACED: misplaced, **by_reason}

    def steps(self, reached: Mapping[TopicPartition, tuple[int | None, int]]) -> Sequence[OffsetAdvance]:
        """How far the part moves its topics, which stand where `reached` says (offset, stream time)."""
        last = {entry.topic: entry for entry in self.entries}
        topics = self.fold.deployed
        return [
            OffsetAdvance(topics[own], reached[topics[own], self.partition][0], entry.offset + 1, entry.stream_time)
            for own, entry in last.items()
        ]

    def split(self, size: int) -> tuple["FoldBatch", "FoldBatch"]:
        """A part of the first `size` entries, and one of the rest."""
        return replace(self, entries=self.entries[:size]), replace(self, entries=self.entries[size:])

    def refuse(self, error: Exception) -> "FoldBatch":
        """The part with its only record as a dead letter."""
        (record,) = self.records
        key, value = next(raw[2:] for raw in self.raw[record.topic] if raw[0] == record.offset)
        times = record.timestamp, record.stream_time
        letter = DeadLetter(record.topic, record.offset, *times, key, value, "fold", error)
        return replace(self, entries=[letter if entry is record else entry for entry in self.entries])


def merge(topics: Sequence[Decoded]) -> Sequence[Entry]:
    """The entries of all `topics` in one order: by stream time, at a tie in the order given; offsets stay in order.

    They end where one of the topics is held up.
    """
    if len(topics) == 1:
        return topics[0].entries
    queues: list[Sequence[Entry | Held]] = [[*of.entries, of.held] if of.held else of.entries for of in topics]
    merged = heapq.merge(*queues, key=lambda entry: entry.stream_time)
    return list(itertools.takewhile(lambda entry: not isinstance(entry, Held), merged))  # type: ignore[arg-type]
