"""The state of an API: partition counts come from the state, so reads need no Kafka."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from streamstate.app import App
from streamstate.errors import Commands, IncompleteCommit
from streamstate.processing.fitness import (
    missing_beginnings,
    require_beginnings,
    require_same_folds,
    require_same_widths,
)
from streamstate.releases.record import Releases, decoded, require_kept
from streamstate.state.operations import Read
from streamstate.state.store import AsyncReads, Positions, Snapshot
from streamstate.web.freshness import Freshness, bounded_text
from streamstate.web.http.problems import not_ready
from streamstate.web.http.request import BEGIN, PRICED_BYTES, STATE_BYTES

_FIRST = 8
"""Partitions read for the counts: one of them is claimed early."""


class _Checked:
    """The checked hash of a partition, which stays the same for all reads between two commits.

    Such snapshots share one object `positions`.
    """

    def __init__(self, positions: Mapping[str, int]) -> None:
        self.positions = positions
        self.widths: tuple[Mapping[str, int], Mapping[str, int]] | None = None
        self.ready: set[tuple[str, ...]] = set()


class AppState:
    """The state of one app. For one event loop.

    truncated: topics whose first records the state may lack. commands: the operator's commands in errors.
    """

    def __init__(
        self, app: App, reads: AsyncReads, freshness: Freshness, truncated: Collection[str], commands: Commands
    ) -> None:
        self._app = app
        self._truncated = truncated
        self._commands = commands
        self._reads = reads
        self._freshness = freshness
        self._counts: Mapping[str, int] = {}
        self._checks: dict[int, _Checked] = {}

    async def counts(self) -> Mapping[str, int]:
        """The partition counts by topic, stored by each claim; raises a 503 `Problem` before the first claim."""
        if not self._counts:
            snapshots = await self._whole(range(_FIRST))
            origins = {topic: of for snapshot in snapshots.values() for topic, of in snapshot.origins.items()}
            if missing := [topic for topic in self._app.topics if topic not in origins]:
                raise not_ready(f"no instance owns partitions of {', '.join(missing)} yet")
            self._counts = {topic: origins[topic].partitions for topic in self._app.topics}
        return self._counts

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        """As `Store.read`. Raises `Misconfigured` for a state of a topic whose partition count has changed."""
        with self._commands:
            return self._fitting(await self._reads.read(wanted))

    async def troubles(self, addresses: Sequence[str]) -> Mapping[str, str]:
        """As `AsyncReads.troubles`."""
        return await self._reads.troubles(addresses)

    async def releases(self, snapshots: Mapping[int, Snapshot]) -> Releases | None:
        """The record of the service's releases, None without a record.

        Raises `Misconfigured` for a record that is lost, by the `snapshots` of all partitions.
        """
        with self._commands:
            record = decoded(await self._reads.releases(self._app.release_of))
            latest = max((snapshot.record for snapshot in snapshots.values()), default=0)
            require_kept(record, latest, self._app.release_of)
            return record

    async def everywhere(self) -> Mapping[int, Snapshot]:
        """Every partition, without values, apart from partitions with a partly applied commit."""
        counts = await self.counts()
        return self._fitting(await self._whole(range(max(counts.values()))))

    async def _whole(self, partitions: Iterable[int]) -> dict[int, Snapshot]:
        """The readable partitions among `partitions`: a partition with half a commit is left out."""

        async def read_partition(partition: int) -> Mapping[int, Snapshot]:
            with suppress(IncompleteCommit):
                return await self._reads.read({partition: []})
            return {}

        return dict(item for found in await asyncio.gather(*map(read_partition, partitions)) for item in found.items())

    def _fitting(self, snapshots: Mapping[int, Snapshot]) -> Mapping[int, Snapshot]:
        widths = self._freshness.widths(), self._counts
        for partition, snapshot in snapshots.items():
            checked = self._checked(partition, snapshot)
            if checked.widths != widths:
                self._require_fit(snapshot, widths[0])
                checked.widths = widths
        return snapshots

    def _require_fit(self, snapshot: Snapshot, widths: Mapping[str, int]) -> None:
        require_same_widths([snapshot.origins], widths)
        if any(self._counts.get(t, of.partitions) != of.partitions for t, of in snapshot.origins.items()):
            self._counts = {}
            detail = "the state was built anew, over another number of partitions"
            raise not_ready(detail)

    def _checked(self, partition: int, snapshot: Snapshot) -> _Checked:
        checked = self._checks.get(partition)
        if checked is None or checked.positions is not snapshot.positions:
            checked = self._checks[partition] = _Checked(snapshot.positions)
        return checked

    async def positions(self) -> Positions:
        """The next offsets of all partitions."""
        return self.positions_of(await self.everywhere())

    def positions_of(self, snapshots: Mapping[int, Snapshot]) -> Positions:
        """The positions in `snapshots`, 0 without a stored offset."""
        return {
            (topic, partition): snapshot.positions.get(topic, 0)
            for partition, snapshot in snapshots.items()
            for topic, count in self._counts.items()
            if partition < count
        }

    def headers_of(self, snapshots: Mapping[int, Snapshot], *, exact: bool = False) -> dict[str, str]:
        """The headers about the state in `snapshots`; `exact` as of `Freshness.headers`."""
        headers = self._freshness.headers(self.positions_of(snapshots), exact=exact)
        if (size := sum(snapshot.size for snapshot in snapshots.values())) >= PRICED_BYTES:
            headers[STATE_BYTES] = str(size)
        if begins := missing_beginnings(self._app, snapshots):
            headers[BEGIN] = bounded_text(begins)
        return headers

    def warning(self, snapshots: Mapping[int, Snapshot]) -> str:
        """The age of the state in `snapshots`, in words, unless recent."""
        return self._freshness.warning(self.positions_of(snapshots))

    def require_ready(self, partition: int, snapshot: Snapshot, topics: Collection[str]) -> None:
        """Raise a 503 `Problem` while `partition` has no owner, or its part of `topics` is being built from nothing.

        Raises `Misconfigured` when the state was made by other folds, or lacks the first records of a topic.
        """
        ready, named = self._checked(partition, snapshot).ready, tuple(topics)
        if named in ready:
            return
        with self._commands:
            require_same_folds(self._app, topics, (snapshot,))
            require_beginnings(self._app, topics, {partition: snapshot}, self._truncated)
        if snapshot.owner is None:
            raise not_ready(f"no instance owns partition {partition} yet", partition=partition)
        if not snapshot.ready(topics):
            percent = int(snapshot.progress(topics) * 100)
            raise not_ready(f"partition {partition} is being built, {percent} %", partition=partition, progress=percent)
        ready.add(named)
