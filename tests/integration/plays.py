"""Plays committed to the recommender's store in the way of its stream, without Kafka and Spark."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from services.events import LISTENING_EVENTS
from services.recommendations.model import PLAYS
from services.recommendations.packing import PlayBatch, pack
from streamstate.keys import LONG, partition_of
from streamstate.state.operations import Append
from streamstate.state.store import Commit, OffsetAdvance, Origin, Store

Int64s = NDArray[np.int64]


class PlaysWriter:
    """Owns all partitions of an empty store; `window` is the setting of the service."""

    def __init__(self, store: Store, partitions: int, window: int) -> None:
        self._store = store
        self._window = window
        origins = {LISTENING_EVENTS: Origin("bench", partitions)}
        self._claims = [store.claim(partition, "bench:1", {}, origins) for partition in range(partitions)]
        self._positions: list[int | None] = [None] * partitions
        self._time = 0

    def commit(self, plays: Int64s) -> None:
        """One commit for each partition; `plays` is int64 of shape (n, 4): user, artist, album, track."""
        self._time += 1
        self._store.commit(*self._commits(plays))

    def _commits(self, plays: Int64s) -> Iterator[Commit]:
        places = self._places(plays[:, 0])
        for claim in self._claims:
            ids = plays[places == claim.partition]
            if len(ids):
                before = self._positions[claim.partition]
                after = self._positions[claim.partition] = (before or 0) + len(ids)
                entry = Append(PLAYS, after, pack(PlayBatch(self._time, ids)), keep=self._window)
                yield Commit(claim, [OffsetAdvance(LISTENING_EVENTS, before, after, self._time)], [entry])

    def _places(self, users: Int64s) -> Int64s:
        """The partition of each user."""
        names, numbers = np.unique(users, return_inverse=True)
        places = [partition_of(LONG.encode(name), len(self._claims)) for name in names.tolist()]
        return np.array(places, np.int64)[numbers]
