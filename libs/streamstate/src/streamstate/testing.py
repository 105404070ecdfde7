"""The testing kit: a driver that feeds an app without Kafka, Spark or Redis, and what an API over its store needs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from streamstate.app import App, Emit, Fold
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Silence, Topics
from streamstate.processing.decode import DeadLetter, Markers, RawRecord
from streamstate.processing.fold_batch import FoldResult
from streamstate.processing.limits import Limits
from streamstate.processing.writer import PartitionWriter
from streamstate.state.operations import Read
from streamstate.state.store import Origin, Snapshot, Store, TopicPartition


class MemoryReader:
    """The `AsyncReads` of a store that never blocks.

    size: of each snapshot, as if Redis had sent so many bytes.
    """

    def __init__(self, store: Store) -> None:
        self.size = 0
        self._store = store

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        snapshots = self._store.read(wanted)
        return {partition: replace(snapshot, size=self.size) for partition, snapshot in snapshots.items()}

    async def troubles(self, addresses: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002, of the protocol
        return {}

    async def releases(self, of: str) -> bytes | None:  # noqa: ARG002, of the protocol
        return None

    async def close(self) -> None: ...


class FixedTopics(Topics):
    """Topics without a Kafka: the partition `counts`, and the ends in `written`."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.written: dict[TopicPartition, int] = {}

    def fall_silent(self, since: float) -> None:
        """From now on, Kafka has not answered since then (seconds since 1970)."""
        self._silence = Silence(since, "timed out")

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.written.get(place, 0) for place in places}

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.ends(places)

    def origin(self, topic: str) -> Origin:
        if topic not in self.counts:
            msg = f"the topic {topic} cannot be read; create it"
            raise Misconfigured(msg)
        return Origin(topic, self.counts[topic])

    def known(self, topic: str) -> Origin | None:
        return self.origin(topic) if topic in self.counts else None


NO_MARKERS: Mapping[str, Markers] = {}


class Driver:
    """Runs an app over records in memory: `feed`, then ask `view`.

    Every topic has `partitions` partitions; the driver claims the partitions in `held`, by default all. `limits` are
    the limits of the stream, by default none; `owner` is the address of the API. With several partitions, the view of a
    key asks the key's own:
    `keys.partition_of` of the key's bytes, with the partitioner of its source.
    """

    def __init__(
        self,
        app: App,
        store: Store,
        partitions: int = 1,
        held: Iterable[int] | None = None,
        limits: Limits | None = None,
        owner: str = "driver:1",
    ) -> None:
        self.app = app
        self.limits = limits or Limits()
        self.store = store
        self.partitions = partitions
        self.emitted: list[Emit] = []
        self.dead: list[DeadLetter] = []
        held = range(partitions) if held is None else held
        origins = {topic: Origin(topic, partitions) for topic in app.topics}
        self.claims = {p: store.claim(p, owner, {}, origins) for p in held}
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
