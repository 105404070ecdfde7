"""From the raw records of partitions to their commits, for the Spark task and for the testing driver.

Decisions are pure. The store is read for what folds ask of it, and written after all that they emit is published.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from streamstate.app import App, Count, Emit, Fold, FoldContext, Lookups, Rows
from streamstate.errors import NotRequested
from streamstate.operators.tables import look_up
from streamstate.processing.decode import DeadLetter, Held, Markers, RawRecord, decode_records, mark
from streamstate.processing.limits import CommitLimit, Limits
from streamstate.processing.numbers import MARGIN, greatest_change, require_exact, sums
from streamstate.processing.parts import FoldBatch, merge
from streamstate.processing.requested import requested
from streamstate.state.operations import LARGE, LARGE_NUMBERS, MOST, Operation, Read
from streamstate.state.store import Claim, Commit, Store, TopicPartition
from streamstate.user_state import seen


@dataclass(frozen=True, slots=True)
class Folded:
    """What a part makes: the commit, and what is published before it."""

    partition: int
    commit: Commit
    emits: Sequence[Emit]
    dead: Sequence[DeadLetter]


NO_MARKERS: Mapping[TopicPartition, Markers] = {}

Publish = Callable[[Sequence[Folded]], None]
"""Returns when all that was folded is published for good; what is published and not committed then comes again."""


CHANGES_A_RECORD = 7.5
"""What a record is expected to change and read, until the first commit tells, and a quarter more than it did then."""


class _Refused(Exception):
    """Records that cannot be folded together; `error` says why, should there be a single one."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Advance:
    """Brings partitions forward by commits, remembering where each stands.

    claims: what may be written. counts: partition counts by topic. clock: the time, in seconds since 1970.

    Round trips are what a small micro-batch waits for: there is one for each kind of call and batch of rows, not for
    each partition.
    """

    def __init__(
        self,
        app: App,
        store: Store,
        claims: Mapping[int, Claim],
        counts: Mapping[str, int],
        publish: Publish,
        limits: Limits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._store = store
        self._claims = claims
        self._counts = counts
        self._publish = publish
        self._limits = limits
        self._clock = clock
        self._reached: dict[TopicPartition, tuple[int | None, int]] = {}
        self._greatest: dict[int, int] = {}
        """By partition, what no stored number is beyond."""
        self._targets: dict[TopicPartition, int] = {}
        self._held: list[Held] = []
        self._changes_a_record = dict.fromkeys((fold.topics for fold in app.folds), CHANGES_A_RECORD)

    def __call__(
        self,
        rows: Mapping[TopicPartition, Sequence[RawRecord]],
        markers: Mapping[TopicPartition, Markers] = NO_MARKERS,
    ) -> None:
        """Fold `rows`, those of tables first, publish, commit; `markers` are those of marked topics.

        A record that cannot be decoded or folded becomes a dead letter, by itself. Raises `TooManyDeadLetters`, and
        `Fenced` when a partition is claimed by another by now. Raises `RegistryUnavailable` when all was committed but
        what waits for a schema, and what comes behind it.
        """
        self._learn({partition for _, partition in rows})
        for tables in (True, False):
            of_kind = {place: raw for place, raw in rows.items() if (place[0] in self._app.tables) is tables}
            self._advance(of_kind, markers)
        if self._held:
            raise self._held[0].error

    def _advance(
        self, rows: Mapping[TopicPartition, Sequence[RawRecord]], markers: Mapping[TopicPartition, Markers]
    ) -> None:
        parts = [part for fold in self._app.folds for part in self._parts(fold, rows, markers)]
        self._limits.dead_letters.require(*_counted(parts))
        for pieces in zip_longest(*map(self._pieces, parts)):
            self._commit([piece for piece in pieces if piece])

    def _pieces(self, part: FoldBatch) -> Iterator[FoldBatch]:
        """What goes into one commit, by the limit when its turn comes, and by what the fold's last commit changed."""
        while part.entries:
            limit = self._limit(part)
            by_changes = int(limit.changes / self._changes_a_record[part.fold.topics])
            piece, part = part.split(max(1, min(limit.records, by_changes)))
            yield piece

    def _limit(self, part: FoldBatch) -> CommitLimit:
        """Reads are refused until a fold has all that its topics held when the build began."""
        places = [(topic, part.partition) for topic in part.fold.topics]
        building = any((self._reached[place][0] or 0) < self._targets[place] for place in places)
        return self._limits.building if building else self._limits.ready

    def _learn(self, partitions: set[int]) -> None:
        """Where the state stands, for partitions that are seen for the first time."""
        new = partitions - self._greatest.keys()
        if new:
            snapshots = self._store.read({partition: [] for partition in new})
            self._reached |= {
                (topic, p): snapshots[p].position_and_time(topic) for p in new for topic in self._app.topics
            }
            self._targets |= {(topic, p): snapshots[p].targets.get(topic, 0) for p in new for topic in self._app.topics}
            self._greatest |= {p: MOST if LARGE_NUMBERS in snapshots[p].counters else LARGE for p in new}

    def _parts(
        self,
        fold: Fold,
        rows: Mapping[TopicPartition, Sequence[RawRecord]],
        markers: Mapping[TopicPartition, Markers],
    ) -> Iterator[FoldBatch]:
        now_ms = int(self._clock() * 1_000)
        for partition in sorted({partition for topic, partition in rows if topic in fold.topics}):
            sources = [source for source in fold.sources if (source.topic, partition) in rows]
            raw = {source.own_name: rows[source.topic, partition] for source in sources}
            decoded = {
                source.own_name: decode_records(
                    source,
                    raw[source.own_name],
                    self._reached[source.topic, partition],
                    (partition, self._counts[source.topic]),
                    self._limits.admission((source.topic, partition), now_ms),
                )
                for source in sources
            }
            for source in sources:
                mark(decoded[source.own_name].entries, markers.get((source.topic, partition), {}))
            misplaced = {(topic, offset) for topic, of in decoded.items() for offset in of.misplaced}
            self._held += [of.held for of in decoded.values() if of.held]
            yield FoldBatch(fold, partition, merge(list(decoded.values())), raw, misplaced)

    def _commit(self, parts: Sequence[FoldBatch]) -> None:
        """Fold, publish and commit together, or in ever smaller parts if a record among them is refused."""
        try:
            folded = self._fold_all(parts)
        except _Refused as refused:
            for smaller in _smaller(parts, refused):
                self._commit(smaller)
            return
        self._limits.dead_letters.require(*_counted(parts))
        self._publish(folded)
        self._store.commit(*(each.commit for each in folded))
        records, letters = _counted(parts)
        self._limits.dead_letters.add(records, len(letters))
        for each in folded:
            self._reached |= {(step.topic, each.partition): (step.next, step.time) for step in each.commit.steps}

    def _fold_all(self, parts: Sequence[FoldBatch]) -> Sequence[Folded]:
        rows = look_up(self._app, self._store, self._counts, _lookups(parts))
        values = self._values(parts)
        folded = [self._fold(part, rows, values.get(part.partition, {})) for part in parts]
        for part, each in zip(parts, folded, strict=True):
            self._require_small(part, each.commit)
            self._require_exact(part, each.commit.operations, alone=len(parts) == 1)
        return folded

    def _values(self, parts: Sequence[FoldBatch]) -> Mapping[int, Mapping[Read, Any]]:
        """The answers to the reads of all folds, by partition."""
        reads: defaultdict[int, list[Read]] = defaultdict(list)
        for part in parts:
            with _refusing():
                if part.reads:
                    reads[part.partition] += part.reads
        snapshots = self._store.read(reads) if reads else {}
        return {p: dict(zip(reads[p], snapshot.values, strict=True)) for p, snapshot in snapshots.items()}

    def _fold(self, part: FoldBatch, rows: Rows, values: Mapping[Read, Any]) -> Folded:
        stream_time = max(self._reached[topic, part.partition][1] for topic in part.fold.topics)
        operations: list[Operation] = []
        emits: list[Emit] = []
        counters = Counter(part.counters)
        with _refusing():
            context = FoldContext(*requested(part.fold, part.lookups, rows, part.reads, values), stream_time)
            own = part.fold.apply(part.kept, context) if part.kept else ()
            shared = part.fold.shared(part.records, context) if part.records else ()
            for effect in chain(own, shared):
                if isinstance(effect, Emit):
                    emits.append(effect)
                elif isinstance(effect, Count):
                    counters[effect.what] += effect.by
                else:
                    operations.append(effect)
        if self._limits.seen and part.fold.users and part.kept:
            operations.append(seen({str(each.key): max(stream_time, each.stream_time) for each in part.kept}))
        commit = Commit(self._claims[part.partition], part.steps(self._reached), operations, +counters)
        return Folded(part.partition, commit, emits, part.dead)

    def _require_small(self, part: FoldBatch, commit: Commit) -> None:
        """Refuse a part of several records that keeps the store busy for too long."""
        size = commit.changes + len(part.reads) + sum(map(len, part.lookups.values()))
        records = len(part.records)
        if records:
            self._changes_a_record[part.fold.topics] = 1.25 * (size + 1) / records
        if records > 1 and size > self._limit(part).changes:
            raise _Refused(OverflowError("too many changes for one commit"))

    def _require_exact(self, part: FoldBatch, operations: Sequence[Operation], *, alone: bool) -> None:
        """Refuse the part when a number may come beyond ±2^53."""
        with _refusing():
            change = greatest_change(operations)
        greatest = self._greatest[part.partition] + change
        if greatest + MARGIN * len(part.records) > MOST and (added := sums(operations)):
            if not alone:
                raise _Refused(OverflowError("another part may change the same number"))
            snapshot = self._store.read({part.partition: list(added)})[part.partition]
            with _refusing():
                require_exact(added, dict(zip(added, snapshot.values, strict=True)), len(part.records))
        self._greatest[part.partition] = min(greatest, MOST)


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse whatever an app's function raises, except what is no fault of a record."""
    try:
        yield
    except (MemoryError, NotRequested):
        raise
    except Exception as error:
        raise _Refused(error) from error


def _smaller(parts: Sequence[FoldBatch], refused: _Refused) -> Iterable[Sequence[FoldBatch]]:
    """What is tried instead: each part alone, its halves, and a single record as a dead letter."""
    if len(parts) > 1:
        return [[part] for part in parts]
    (part,) = parts
    if len(part.records) > 1:
        return [[half] for half in part.split((len(part.entries) + 1) // 2)]
    return [[part.refuse(refused.error)]]


def _counted(parts: Iterable[FoldBatch]) -> tuple[int, Sequence[tuple[int, DeadLetter]]]:
    """How many records are in `parts`, and the dead letters among them with their partitions."""
    letters = [(part.partition, letter) for part in parts for letter in part.dead]
    return sum(len(part.entries) for part in parts), letters


def _lookups(parts: Iterable[FoldBatch]) -> Lookups:
    """The lookups of all folds in all partitions."""
    keys: defaultdict[str, set[Any]] = defaultdict(set)
    for part in parts:
        with _refusing():
            for table, of_part in part.lookups.items():
                keys[table] |= of_part
    return keys
