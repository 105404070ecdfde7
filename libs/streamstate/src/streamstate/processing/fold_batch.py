"""The records of a micro-batch for a fold and a partition: folding and splitting."""

import heapq
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from streamstate.app import Count, Emit, Fold, FoldContext, Record, Rows
from streamstate.errors import NotRequested, RegistryUnavailable
from streamstate.processing.decode import (
    DEAD,
    DEAD_FOR,
    MISPLACED,
    DeadLetter,
    Decoded,
    Entry,
    Held,
    Position,
    RawRecord,
)
from streamstate.state.operations import Operation, Read, require_exact
from streamstate.state.store import Claim, Commit, OffsetAdvance


@dataclass(frozen=True, slots=True)
class FoldResult:
    """The commit of a batch, the records published before it, and the batch's `entries`."""

    partition: int
    commit: Commit
    emits: Sequence[Emit]
    dead: Sequence[DeadLetter]
    entries: Sequence[Entry]


class Unfoldable(Exception):
    """The records of a batch cannot be folded together; `reason` is the reason to refuse a single record."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class FoldBatch:
    """The `entries` for `fold` in `partition`, in the order of folding.

    raw: the raw records by topic. misplaced: topic and offset of records with a key of another partition.
        unavailable: why further records wait for the schema registry. Topics have the service's names.
    """

    fold: Fold
    partition: int
    entries: Sequence[Entry]
    raw: Mapping[str, Sequence[RawRecord]]
    misplaced: Set[tuple[str, int]]
    unavailable: RegistryUnavailable | None = None

    @cached_property
    def records(self) -> Sequence[Record[Any, Any]]:
        return [entry for entry in self.entries if isinstance(entry, Record)]

    @cached_property
    def dead(self) -> Sequence[DeadLetter]:
        return [entry for entry in self.entries if isinstance(entry, DeadLetter)]

    @cached_property
    def lookups(self) -> Mapping[str, set[Any]]:
        """The fold's declared keys of rows, by table. Raises `Unfoldable`."""
        with _refusing():
            asked = self.fold.lookups(self.records) if self.records else {}
            return {table: set(keys) for table, keys in asked.items()}

    @cached_property
    def reads(self) -> Sequence[Read]:
        """The fold's declared reads of the partition's own state. Raises `Unfoldable`."""
        with _refusing():
            return list(self.fold.reads(self.records)) if self.records else []

    @property
    def questions(self) -> int:
        """The number of reads and lookups."""
        return len(self.reads) + sum(map(len, self.lookups.values()))

    def apply(
        self, claim: Claim, positions: Mapping[str, Position], rows: Rows, values: Mapping[Read, Any]
    ) -> FoldResult:
        """Fold the records. `positions` are of the topics; `rows` and `values` answer lookups and reads.

        Raises `Unfoldable`.
        """
        operations: list[Operation] = []
        emits: list[Emit] = []
        counters = Counter(self._counters)
        with _refusing():
            stream_time = max(positions[topic][1] for topic in self.fold.topics)
            context = FoldContext(*declared(self.fold, self.lookups, rows, self.reads, values), stream_time)
            functions = (self.fold.apply, self.fold.shared) if self.records else ()
            for effect in chain.from_iterable(function(self.records, context) for function in functions):
                if isinstance(effect, Emit):
                    emits.append(effect)
                elif isinstance(effect, Count):
                    counters[effect.what] += effect.by
                else:
                    operations.append(effect)
            require_exact(operations)
        commit = Commit(claim, self._steps(positions), operations, +counters)
        return FoldResult(self.partition, commit, emits, self.dead, self.entries)

    @property
    def _counters(self) -> dict[str, int]:
        records = self.records if self.misplaced else ()
        misplaced = sum((record.topic, record.offset) in self.misplaced for record in records)
        by_reason = Counter(DEAD_FOR + letter.reason for letter in self.dead)
        return {DEAD: len(self.dead), MISPLACED: misplaced, **by_reason}

    def _steps(self, positions: Mapping[str, Position]) -> Sequence[OffsetAdvance]:
        deployed = {source.own_name: source.topic for source in self.fold.sources}
        offsets = {deployed[entry.topic]: entry.offset for entry in self.entries}
        times = {deployed[record.topic]: record.stream_time for record in self.records}
        return [
            OffsetAdvance(topic, positions[topic][0], offset + 1, times.get(topic, positions[topic][1]))
            for topic, offset in offsets.items()
        ]

    def set_times(self, positions: Mapping[str, Position]) -> None:
        """Set the stream times of the records after `positions`: a record refused since decoding moves no time."""
        times = {source.own_name: positions[source.topic][1] for source in self.fold.sources}
        for record in self.records:
            times[record.topic] = record.stream_time = max(times[record.topic], record.timestamp)

    def split(self, size: int) -> tuple["FoldBatch", "FoldBatch"]:
        """A batch of the first `size` entries, and a batch of the rest."""
        return replace(self, entries=self.entries[:size]), replace(self, entries=self.entries[size:])

    def smaller(self, error: Exception) -> Sequence["FoldBatch"]:
        """Both halves, or the batch with its only record as a dead letter for `error`."""
        if len(self.entries) > 1:
            return self.split((len(self.entries) + 1) // 2)
        (record,) = self.records
        key, value = next(raw[2:] for raw in self.raw[record.topic] if raw[0] == record.offset)
        times = record.timestamp, record.stream_time
        letter = DeadLetter(record.topic, record.offset, *times, key, value, "fold", error)
        return [replace(self, entries=[letter if entry is record else entry for entry in self.entries])]


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise `Unfoldable` for any exception of an app's function, except for faults outside the records."""
    try:
        yield
    except (MemoryError, NotRequested):
        raise
    except Exception as error:
        raise Unfoldable(error) from error


def merge(topics: Sequence[Decoded]) -> Sequence[Entry]:
    """The entries of all `topics` in one order: by stream time, on a tie in the order given; offsets stay in order.

    The result ends at the first waiting record of any topic.
    """
    if len(topics) == 1:
        return topics[0].entries
    queues: list[Sequence[Entry | Held]] = [[*of.entries, of.held] if of.held else of.entries for of in topics]
    merged = heapq.merge(*queues, key=lambda entry: entry.stream_time)
    return list(itertools.takewhile(lambda entry: not isinstance(entry, Held), merged))  # type: ignore[arg-type]


K = TypeVar("K")
V = TypeVar("V")


def declared(
    fold: Fold, lookups: Mapping[str, Collection[Any]], rows: Rows, reads: Iterable[Read], values: Mapping[Read, Any]
) -> tuple[Rows, Mapping[Read, Any]]:
    """The results declared by `fold` in one partition, out of all folds' results (`rows`, `values`)."""
    tables = {
        table: _Requested({key: rows[table][key] for key in keys}, fold, "lookups", f"a row of {table}")
        for table, keys in lookups.items()
    }
    own = {read: values[read] for read in reads}
    return _Requested(tables, fold, "lookups", "a table"), _Requested(own, fold, "reads", "the state")


class _Requested(Mapping[K, V]):
    """Raises `NotRequested` for a missing key, in `get` as well. `noun` names the kind of results."""

    def __init__(self, answers: Mapping[K, V], fold: Fold, function: str, noun: str) -> None:
        self._answers = answers
        self._fold = fold
        self._function = function
        self._noun = noun

    def __getitem__(self, key: K) -> V:
        if key not in self._answers:
            fold = f"the fold of {' and '.join(self._fold.topics)}"
            noun = _name(key) if isinstance(key, Read) else self._noun
            raise NotRequested(f"{fold} looks at {noun}, which it did not ask for; add it to its `{self._function}`")
        return self._answers[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


def _name(read: Read) -> str:
    """The state key up to its first colon: the rest may be a user's id."""
    return f"{type(read).__name__}({read.key.partition(':')[0]}…)"
