"""Raw records of partitions to commits, for the Spark task and the testing driver."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Protocol

from streamstate.app import App, Fold, Lookups
from streamstate.errors import INEXACT, Inexact, RegistryUnavailable, Superseded, TooManyDeadLetters
from streamstate.operators.tables import look_up
from streamstate.processing.decode import DeadLetter, Decoded, Markers, Position, RawRecord, decode_records, mark
from streamstate.processing.fold_batch import FoldBatch, FoldResult, Unfoldable, merge
from streamstate.processing.limits import CommitLimit, Limits, Pace
from streamstate.state.operations import Read, adds
from streamstate.state.store import Claim, Commit, Store, TopicPartition

RawRecords = Mapping[TopicPartition, Sequence[RawRecord]]
NO_MARKERS: Mapping[TopicPartition, Markers] = {}

NOWHERE: Position = (None, 0)

CHANGES_A_RECORD = 7.5
"""Initial estimate of changes and reads per record; afterwards 1.25 times the last commit's."""


class Outbox(Protocol):
    """The topics written before a commit."""

    def require_same_topics(self) -> None:
        """Raise `Misconfigured` for a recreated or widened input topic: the records may be of the new topic."""

    def publish(self, results: Sequence[FoldResult]) -> int | None:
        """Return when Kafka has stored all derived records and dead letters. Without a commit, all are sent again.

        Returns the number of the record of releases by which this release published, None without outputs.
        """

    def publish_halting(self, letters: Sequence[tuple[int, DeadLetter]]) -> None:
        """Publish the dead letters of a halting stream, with their partitions."""


class PartitionWriter:
    """Advances partitions by commits.

    claims: the claims of the partitions to write. counts: partition counts by topic. folds: by partition, by default
        the app's. clock: the time, in seconds since 1970.

    The writer keeps the positions of partitions, and reads the store only for a first record at another offset. The
    store refuses commits at a wrong position. A batch of rows takes one round trip for each kind of call, not for each
    partition: round trips dominate a small micro-batch.
    """

    def __init__(
        self,
        app: App,
        store: Store,
        claims: Mapping[int, Claim],
        counts: Mapping[str, int],
        outbox: Outbox,
        limits: Limits,
        folds: Mapping[int, Sequence[Fold]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._store = store
        self._claims = claims
        self._counts = counts
        self._outbox = outbox
        self._limits = limits
        self._folds = folds or dict.fromkeys(claims, app.folds)
        self._clock = clock
        self._positions: dict[int, dict[str, Position]] = {}
        self._targets: dict[int, Mapping[str, int]] = {}
        self._pace = Pace(store, claims, limits.build_rate)
        self._changes_a_record = dict.fromkeys((fold.topics for fold in app.folds), CHANGES_A_RECORD)

    @property
    def paced(self) -> bool:
        """Whether builds have a rate at present."""
        return self._pace.bounded

    @property
    def building_records(self) -> int:
        """About the most records of a build's next commit."""
        limit = self._limits.building
        return min(limit.records, int(limit.changes / max(self._changes_a_record.values())))

    def write(self, raw: RawRecords, markers: Mapping[TopicPartition, Markers] = NO_MARKERS) -> None:
        """Decode `raw`, the records of tables first, fold, publish and commit; `markers` are of marked topics.

        A record refused by decoder or fold becomes a dead letter. Raises `TooManyDeadLetters`, `Fenced` for a partition
        claimed by another process, and `RegistryUnavailable` for records waiting for a schema: these records and later
        records of their partitions are not committed.

        After a hand-over of the outputs, the rest is folded and published again by the new record of releases.
        """
        superseded: int | None = None
        while True:
            try:
                return self._write(raw, markers)
            except Superseded as error:
                if error.args[0] == superseded:
                    # The latest record, by which the partition was fenced, is lost: the next start says so.
                    raise
                superseded = error.args[0]

    def _write(self, raw: RawRecords, markers: Mapping[TopicPartition, Markers]) -> None:
        self._outbox.require_same_topics()
        folds = [(fold, p) for p in sorted({p for _, p in raw}) for fold in self._folds[p]]
        unavailable: list[RegistryUnavailable] = []
        try:
            self._read_positions(raw)
            for tables in (True, False):
                of_kind = ((fold, p) for fold, p in folds if fold.sources[0].table is tables)
                batches = [self._decode(fold, p, raw, markers) for fold, p in of_kind]
                self._require_few_dead_letters(batches)
                for pieces in zip_longest(*map(self._pieces, batches)):
                    together = [piece for piece in pieces if piece]
                    self._await_pace(together)
                    self._commit(together)
                unavailable += [batch.unavailable for batch in batches if batch.unavailable]
        except BaseException:
            self._positions.clear()
            raise
        if unavailable:
            raise unavailable[0]

    def _read_positions(self, raw: RawRecords) -> None:
        """Read the positions of partitions, unless the first records follow the known positions.

        A fold of several topics needs the stream times of all topics: another process with the same claim may have
        advanced one.
        """
        unknown = {
            partition
            for (topic, partition), records in raw.items()
            if self._app.merges or self._positions.get(partition, {}).get(topic, NOWHERE)[0] != records[0][0]
        }
        if unknown:
            for partition, snapshot in self._store.read(dict.fromkeys(unknown, ())).items():
                self._positions[partition] = {topic: snapshot.position_and_time(topic) for topic in self._app.topics}
                self._targets[partition] = snapshot.targets

    def _decode(
        self, fold: Fold, partition: int, raw: RawRecords, markers: Mapping[TopicPartition, Markers]
    ) -> FoldBatch:
        """The decoded records for `fold`."""
        now_ms = int(self._clock() * 1_000)
        of_fold: dict[str, Sequence[RawRecord]] = {}
        decoded: dict[str, Decoded] = {}
        for source in fold.sources:
            topic, place = source.own_name, (source.topic, partition)
            if place in raw:
                of_fold[topic] = raw[place]
                position, width = self._positions[partition][source.topic], self._counts[source.topic]
                admission = self._limits.timestamps.admission(place, now_ms)
                decoded[topic] = decode_records(source, raw[place], position, (partition, width), admission)
                mark(decoded[topic].entries, markers.get(place, {}))
        misplaced = {(topic, offset) for topic, of in decoded.items() for offset in of.misplaced}
        unavailable = next((of.held.error for of in decoded.values() if of.held), None)
        return FoldBatch(fold, partition, merge([*decoded.values()]), of_fold, misplaced, unavailable)

    def _pieces(self, batch: FoldBatch) -> Iterator[FoldBatch]:
        """The batch in pieces of a commit each; the fold's last commit gives the size."""
        while batch.entries:
            limit = self._limit(batch)
            by_changes = int(limit.changes / self._changes_a_record[batch.fold.topics])
            piece, batch = batch.split(max(1, min(limit.records, by_changes)))
            yield piece

    def _await_pace(self, batches: Iterable[FoldBatch]) -> None:
        """Wait until the rate of builds admits `batches`."""
        # A partition has a batch of each fold.
        records: Counter[int] = Counter()
        for each in filter(self._of_build, batches):
            records[each.partition] += len(each.entries)
        self._pace.turn(records)

    def _limit(self, batch: FoldBatch) -> CommitLimit:
        limits = self._limits
        if not self._of_build(batch):
            return limits.ready
        return self._pace.limit(batch.partition, limits.building, limits.ready)

    def _of_build(self, batch: FoldBatch) -> bool:
        """Whether reads are refused: until a fold has all records of its topics from before the build."""
        positions, targets = self._positions[batch.partition], self._targets[batch.partition]
        return any((positions[topic][0] or 0) < targets.get(topic, 0) for topic in batch.fold.topics)

    def _commit(self, batches: Sequence[FoldBatch]) -> None:
        """Fold, publish and commit together; with a refused record, in ever smaller batches."""
        try:
            results = self._fold(batches)
            self._require_few_dead_letters(batches)
        except Unfoldable as error:
            for smaller in batches if len(batches) > 1 else batches[0].smaller(error.reason):
                self._commit([smaller])
            return
        published_by = self._outbox.publish(results)
        refused: Sequence[int] = ()
        try:
            self._store.commit(*(replace(result.commit, record=published_by) for result in results))
        except Inexact as error:
            refused = error.refused
        applied = [index for index in range(len(batches)) if index not in refused]
        for step, partition in ((step, results[i].partition) for i in applied for step in results[i].commit.steps):
            self._positions[partition][step.topic] = step.next, step.time
        records, letters = _counted([batches[index] for index in applied])
        self._limits.dead_letters.add(records, len(letters))
        for index in refused:
            for smaller in batches[index].smaller(OverflowError(INEXACT)):
                self._commit([smaller])

    def _fold(self, batches: Sequence[FoldBatch]) -> Sequence[FoldResult]:
        """The results of all `batches`. Raises `Unfoldable` if a batch cannot be folded."""
        for batch in batches:
            batch.set_times(self._positions[batch.partition])
        rows = look_up(self._app, self._store, self._counts, _lookups(batches))
        values = self._values(batches)
        results = []
        for batch in batches:
            claim, positions = self._claims[batch.partition], self._positions[batch.partition]
            results.append(batch.apply(claim, positions, rows, values.get(batch.partition, {})))
            self._require_small(batch, results[-1].commit)
        # Readers would count the derived records of a record refused after their publication.
        unsure = [each.commit for each in results if each.emits and any(map(adds, each.commit.operations))]
        if unsure:
            try:
                self._store.commit(*unsure, dry_run=True)
            except Inexact as error:
                raise Unfoldable(OverflowError(INEXACT)) from error
        return results

    def _values(self, batches: Iterable[FoldBatch]) -> Mapping[int, Mapping[Read, Any]]:
        reads: defaultdict[int, list[Read]] = defaultdict(list)
        for batch in batches:
            if batch.reads:
                reads[batch.partition] += batch.reads
        snapshots = self._store.read(reads) if reads else {}
        return {p: dict(zip(reads[p], snapshot.values, strict=True)) for p, snapshot in snapshots.items()}

    def _require_small(self, batch: FoldBatch, commit: Commit) -> None:
        """Raise `Unfoldable` for several records with too many changes for one commit."""
        size, records = commit.changes + batch.questions, len(batch.records)
        if records:
            self._changes_a_record[batch.fold.topics] = 1.25 * (size + 1) / records
        if records > 1 and size > self._limit(batch).changes:
            raise Unfoldable(OverflowError("too many changes for one commit"))

    def _require_few_dead_letters(self, batches: Iterable[FoldBatch]) -> None:
        """Raise `TooManyDeadLetters` after publishing the letters."""
        try:
            self._limits.dead_letters.require(*_counted(batches))
        except TooManyDeadLetters as error:
            self._outbox.publish_halting(error.letters)
            raise


def _counted(batches: Iterable[FoldBatch]) -> tuple[int, Sequence[tuple[int, DeadLetter]]]:
    """The number of records in `batches`, and the dead letters among them with their partitions."""
    batches = list(batches)
    letters = [(batch.partition, letter) for batch in batches for letter in batch.dead]
    return sum(len(batch.entries) for batch in batches), letters


def _lookups(batches: Iterable[FoldBatch]) -> Lookups:
    keys: defaultdict[str, set[Any]] = defaultdict(set)
    for batch in batches:
        for table, of_batch in batch.lookups.items():
            keys[table] |= of_batch
    return keys
