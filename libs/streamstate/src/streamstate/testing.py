"""The testing kit: a driver that feeds an app without Kafka, Spark or Redis."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from streamstate.app import App, Emit, Fold
from streamstate.processing.decode import DeadLetter, Markers, RawRecord
from streamstate.processing.fold_batch import FoldResult
from streamstate.processing.limits import Limits
from streamstate.processing.writer import PartitionWriter
from streamstate.state.store import Origin, Store

NO_MARKERS: Mapping[str, Markers] = {}


class Driver:
    """Runs an app over records in memory: `feed`, then ask `view`.

    Every topic has `partitions` partitions; the driver claims the partitions in `held`, by default all. `limits` are
    the limits of the stream, by default none. With several partitions, the view of a key asks the key's own:
    `keys.partition_of` of the key's bytes, with the partitioner of its source.
    """

    def __init__(
        self,
        app: App,
        store: Store,
        partitions: int = 1,
        held: Iterable[int] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.app = app
        self.limits = limits or Limits()
        self.store = store
        self.partitions = partitions
        self.emitted: list[Emit] = []
        self.dead: list[DeadLetter] = []
        held = range(partitions) if held is None else held
        origins = {topic: Origin(topic, partitions) for topic in app.topics}
        self.claims = {p: store.claim(p, "driver:1", {}, origins) for p in held}
        self.folds: Mapping[int, Sequence[Fold]] = dict.fromkeys(self.claims, app.folds)

    def feed(
        self,
        partition: int,
        raw: Mapping[str, Sequence[RawRecord]],
        markers: Mapping[str, Markers] = NO_MARKERS,
    ) -> None:
        """Process `raw` (by topic) as one micro-batch; records already in the state are skipped.

        markers: the headers `streamstate.source` of derived topics, by topic and offset.

        Raises `ValueError` for a topic or partition that the driver does not have.
        """
        if strange := sorted({topic for topic, records in raw.items() if records} - {*self.app.topics}):
            msg = f"{self.app.name} reads no topic {', '.join(strange)}; it reads {', '.join(self.app.topics)}"
            raise ValueError(msg)
        if partition not in self.claims:
            msg = f"the driver holds no partition {partition}; it holds {', '.join(map(str, self.claims))}"
            raise ValueError(msg)
        counts = dict.fromkeys(self.app.topics, self.partitions)
        writer = PartitionWriter(self.app, self.store, self.claims, counts, self, self.limits, self.folds)
        writer.write(
            {(topic, partition): records for topic, records in raw.items() if records},
            {(topic, partition): headers for topic, headers in markers.items()},
        )

    def require_same_topics(self) -> None:
        """Nothing makes topics anew."""

    def publish(self, results: Sequence[FoldResult]) -> None:
        """Keep the records for the test."""
        for result in results:
            self.emitted += result.emits
            self.dead += result.dead

    def publish_halting(self, letters: Sequence[tuple[int, DeadLetter]]) -> None:
        """A test sees them in the error."""

    def view(self, name: str, key: Any = "", query: msgspec.Struct | None = None) -> msgspec.Struct | None:
        """The answer of the view `name` for `key`. Raises `ValueError` for an unknown view."""
        views = {view.name: view for view in self.app.views}
        if (view := views.get(name)) is None:
            msg = f"{self.app.name} has no view {name}; it has {', '.join(views)}"
            raise ValueError(msg)
        return view.ask(str(key), query).answer_from(self.store, dict.fromkeys(self.app.topics, self.partitions))
