"""Partitions of an app, folded into memory by the writer of the stream."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from streamstate.app import App
from streamstate.erasure.applying import Erased, personal
from streamstate.processing.decode import DeadLetter, RawRecord, Refusal
from streamstate.processing.fold_batch import FoldResult
from streamstate.processing.limits import Limits, TimestampLimit
from streamstate.processing.writer import PartitionWriter
from streamstate.replay.feed import Dated
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Origin, TopicPartition

BATCH = 5_000
"""The most records folded at once."""

_OWNER = "replay"

Refused = Mapping[TopicPartition, Mapping[int, Refusal]]
"""By topic, partition and offset, the records that the stream left out of decoding."""


def ignore(_result: FoldResult) -> None:
    """Publish nothing."""


class Replay:
    """Folds records into `store`, and gives what each commit would publish to `publisher`.

    origins: of the app's topics. refused, erased: the records that the stream left out; `refused` may grow.
    """

    def __init__(
        self,
        app: App,
        store: MemoryStore,
        origins: Mapping[str, Origin],
        refused: Refused,
        erased: Erased,
        publisher: Callable[[FoldResult], None] = ignore,
    ) -> None:
        counts = {topic: origins[topic].partitions for topic in app.topics}
        partitions = range(max(counts.values()))
        claims = {partition: store.claim(partition, _OWNER, {}, origins) for partition in partitions}
        folds = {partition: personal(app, partition, erased, keep_seen=False) for partition in partitions}
        limits = Limits(timestamps=TimestampLimit({}, refused))
        self._tables: Collection[str] = app.tables
        self.publisher = publisher
        self._writer = PartitionWriter(app, store, claims, counts, self, limits, folds)

    def fold(self, records: Iterable[Dated]) -> None:
        """Fold `records` in batches. The writer folds the rows of tables of a batch first: a row ends a batch."""
        batch: list[Dated] = []
        for record in records:
            if len(batch) >= BATCH or (batch and record.topic in self._tables and batch[-1].topic not in self._tables):
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
                markers[record.place][record.offset] = record.marker
        self._writer.write(rows, markers)

    def require_same_topics(self) -> None:
        """The records are read already."""

    def publish(self, results: Sequence[FoldResult]) -> None:
        for result in results:
            self.publisher(result)

    def publish_halting(self, letters: Sequence[tuple[int, DeadLetter]]) -> None:
        """Nothing halts."""
