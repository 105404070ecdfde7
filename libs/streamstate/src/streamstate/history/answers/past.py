"""The state of an app at an earlier time, folded into memory by the writer of the stream."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from streamstate.app import App
from streamstate.erasure.applying import Erased, personal
from streamstate.history.answers.feed import Dated, MergedLogs
from streamstate.processing.decode import DeadLetter, RawRecord, Refusal
from streamstate.processing.fold_batch import FoldResult
from streamstate.processing.limits import Limits, TimestampLimit
from streamstate.processing.writer import PartitionWriter
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin, TopicPartition
from streamstate.view import Question, View

BATCH = 5_000
"""The most records folded at once."""

_OWNER = "replay"

Refused = Mapping[TopicPartition, Mapping[int, Refusal]]
"""By topic, partition and offset, the records that the stream left out of decoding."""


def behind(app: App, view: View[object]) -> App:
    """`app` with the folds behind the answers of `view`: the fold of its topic, and the tables that a fold looks up."""
    topics = app.topics_of(view)
    own = [fold for fold in app.folds if set(fold.topics) & {*topics}]
    looked_up = [] if all(fold.sources[0].table for fold in own) else app.tables
    return replace(app, folds=tuple(fold for fold in app.folds if fold in own or set(fold.topics) & {*looked_up}))


class Past:
    """The state of partitions of `app`, advanced by the records of `feed`.

    origins: of the app's topics. refused, erased: the records that the stream left out. A table's rows of all
    partitions are looked up, so the partitions of tables are all folded.
    """

    def __init__(
        self, app: App, origins: Mapping[str, Origin], feed: MergedLogs, refused: Refused, erased: Erased
    ) -> None:
        self._app = app
        self._feed = feed
        self._store = MemoryStore()
        self.counts = {topic: origins[topic].partitions for topic in app.topics}
        partitions = range(max(self.counts.values()))
        claims = {partition: self._store.claim(partition, _OWNER, {}, origins) for partition in partitions}
        folds = {partition: personal(app, partition, erased, keep_seen=False) for partition in partitions}
        limits = Limits(timestamps=TimestampLimit({}, refused))
        self._writer = PartitionWriter(app, self._store, claims, self.counts, self, limits, folds)

    def advance_until(self, time: int) -> None:
        """Fold the records of each log before its first record with a timestamp after `time`, in milliseconds."""
        self._fold(self._feed.until(time))

    def advance_to(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Fold the records before `offsets`, next offsets by topic and partition."""
        self._fold(self._feed.before(offsets))

    def look_ahead(self, time: int) -> None:
        """As `MergedLogs.look_ahead`: the state does not advance any more."""
        self._feed.look_ahead(time)

    def answer(self, question: Question) -> msgspec.Struct | None:
        """The answer of the view, None for a key that it does not know."""
        return question.answer_from(self._store, self.counts)

    def positions(self, partitions: Iterable[int]) -> dict[TopicPartition, int]:
        """The next offsets of the folded records, 0 before the first."""
        return {
            (topic, partition): snapshot.positions.get(topic, 0)
            for partition, snapshot in self._store.read(dict.fromkeys(partitions, ())).items()
            for topic, count in self.counts.items()
            if partition < count
        }

    def require_same_topics(self) -> None:
        """The records are read already."""

    def publish(self, results: Sequence[FoldResult]) -> None:
        """Nothing is published."""

    def publish_halting(self, letters: Sequence[tuple[int, DeadLetter]]) -> None:
        """Nothing halts."""

    def _fold(self, records: Iterable[Dated]) -> None:
        """Fold `records` in batches. The writer folds the rows of tables of a batch first: a row ends a batch."""
        batch: list[Dated] = []
        tables: Collection[str] = self._app.tables
        for record in records:
            if len(batch) >= BATCH or (batch and record.topic in tables and batch[-1].topic not in tables):
                self._write(batch)
                batch = []
            batch.append(record)
        if batch:
            self._write(batch)

    def _write(self, batch: Iterable[Dated]) -> None:
        rows: defaultdict[TopicPartition, list[RawRecord]] = defaultdict(list)
        markers: defaultdict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
        for record in batch:
            rows[record.place].append(record.raw)
            if record.marker is not None:
                markers[record.place][record.raw[0]] = record.marker
        self._writer.write(rows, markers)
