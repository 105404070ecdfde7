"""The listening events and names that a run is about, in Kafka and as files for the peers' scripts."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from devkit import records
from devkit.bench.exact import listening
from devkit.bench.plays import Int64s, with_homes
from services.events import KINDS, LISTENING_EVENTS
from streamstate.kafka.producer import Outgoing, producer, send_all

SEED, USERS, TRACKS = 1, 50_000, 1_000_000
ASKED = 20_000
FIRST_MS, SPACING_MS, LATE_MS = 1_700_000_000_000, 50, 60_000
_SLICE = 50_000


@dataclass(frozen=True)
class Data:
    """`rows` is int64 of shape (n, 5): user, artist, album, track and time in ms. Times rise, with some disorder."""

    rows: Int64s

    @classmethod
    def make(cls, events: int) -> "Data":
        """Seeded plays: popularity by Zipf's law, and every user prefers two of 50 genres."""
        plays = with_homes(listening(SEED, USERS, TRACKS, events))
        late = np.random.default_rng(SEED).integers(0, LATE_MS, events)
        return cls(np.column_stack([plays, FIRST_MS + SPACING_MS * np.arange(events) - late]))

    @property
    def plays(self) -> Int64s:
        """int64 of shape (n, 4): user, artist, album, track."""
        return self.rows[:, :4]

    def users(self) -> list[int]:
        """Who is asked for: drawn by plays, so that busy users come more often."""
        chosen: list[int] = np.random.default_rng(SEED).choice(self.rows[:, 0], ASKED).tolist()
        return chosen

    def save(self, folder: Path) -> None:
        """The files that the peers' scripts read: `events.npy`, and `edges.bin` with (user, track)."""
        np.save(folder / "events.npy", self.rows)
        self.rows[:, [0, 3]].astype("<i8").tofile(folder / "edges.bin")

    def send(self, bootstrap: str, recode: records.Recode = iter) -> None:
        """All events, and the names of all that was played, to their topics."""
        out = producer(bootstrap)
        send_all(out, recode(self._names()))
        send_all(out, recode(self._events()))

    def current_events(self, count: int) -> list[records.Event]:
        """So many of the events, drawn by chance, as if they happened at this moment."""
        rows = np.random.default_rng().choice(self.plays, count)
        stamp = time.time_ns() // 1_000_000
        return [records.event(user, artist, album, track, stamp) for user, artist, album, track in rows.tolist()]

    def _events(self) -> Iterator[Outgoing]:
        for first in range(0, len(self.rows), _SLICE):
            for row in self.rows[first : first + _SLICE].tolist():
                yield LISTENING_EVENTS, *records.event(*row), []

    def _names(self) -> Iterator[Outgoing]:
        for column, topic in enumerate(KINDS, 1):
            for identifier in np.unique(self.rows[:, column]).tolist():
                yield *records.name(topic, identifier, f"{topic} {identifier}"), []
