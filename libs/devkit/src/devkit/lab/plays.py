"""The listening events and names of a run."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from devkit.demo import say
from devkit.events import records
from devkit.lab.load import sending
from services.events import KINDS, LISTENING_EVENTS
from streamstate.kafka.producer import Outgoing, producer, send_all

Int64s = NDArray[np.int64]

SEED, USERS, TRACKS = 1, 50_000, 1_000_000
ASKED = 20_000
RATE = 5_000
"""Events a second under load."""
FIRST_MS, SPACING_MS, LATE_MS = 1_700_000_000_000, 50, 60_000
_SLICE = 50_000
_DRAWN = 200_000


@dataclass(frozen=True)
class Data:
    """`rows` is int64 of shape (n, 5): user, artist, album, track and time in ms. Times rise, with some disorder."""

    rows: Int64s

    @classmethod
    def make(cls, events: int, users: int = USERS) -> "Data":
        """Seeded plays of `users`: popularity by Zipf's law, and two preferred genres of 50 for every user.

        An album has ten tracks, an artist five albums.
        """
        user, track = listening(SEED, users, TRACKS, events).T
        late = np.random.default_rng(SEED).integers(0, LATE_MS, events)
        times = FIRST_MS + SPACING_MS * np.arange(events) - late
        return cls(np.column_stack([user, track // 50 + 1, track // 10 + 1, track, times]))

    @property
    def plays(self) -> Int64s:
        """int64 of shape (n, 4): user, artist, album, track."""
        return self.rows[:, :4]

    def users(self) -> list[int]:
        """The users of the requests, drawn by plays: busy users come more often."""
        chosen: list[int] = np.random.default_rng(SEED).choice(self.rows[:, 0], ASKED).tolist()
        return chosen

    def send(self, bootstrap: str) -> None:
        """Send all events, and the names of all items in the events, to their topics."""
        say(f"sending {len(self.rows):,} events, and the names of their items")
        out = producer(bootstrap)
        send_all(out, self._names())
        send_all(out, self._events())

    @contextmanager
    def steady(self, bootstrap: str) -> Iterator[None]:
        """Send `RATE` events a second, drawn at random with the time of the start, while the block runs."""
        plays, stamp = np.random.default_rng().choice(self.plays, _DRAWN), time.time_ns() // 1_000_000
        drawn: list[Outgoing] = [
            (LISTENING_EVENTS, *records.event(user, artist, album, track, stamp), [])
            for user, artist, album, track in plays.tolist()
        ]
        with sending(bootstrap, cycle(drawn), RATE):
            yield

    def _events(self) -> Iterator[Outgoing]:
        for first in range(0, len(self.rows), _SLICE):
            for row in self.rows[first : first + _SLICE].tolist():
                yield LISTENING_EVENTS, *records.event(*row), []

    def _names(self) -> Iterator[Outgoing]:
        for column, topic in enumerate(KINDS, 1):
            for identifier in np.unique(self.rows[:, column]).tolist():
                yield *records.name(topic, identifier, f"{topic} {identifier}"), []


def listening(seed: int, users: int = 2_000, tracks: int = 20_000, events: int = 100_000) -> Int64s:
    """Plays by users with two preferred genres each, popularity by Zipf's law: user and track, int64 of (events, 2)."""
    dice, genres = np.random.default_rng(seed), 50
    user = dice.permutation(users)[_zipf(dice, users, 0.7, events)]
    taste = _zipf(dice, genres, 0.5, 2 * users).reshape(users, 2)[user, dice.integers(0, 2, events)]
    genre = np.where(dice.random(events) < 0.8, taste, dice.integers(0, genres, events))
    track = _zipf(dice, tracks // genres, 1.0, events) * genres + genre
    return np.column_stack([user, track]).astype(np.int64) + 1


def _zipf(dice: np.random.Generator, count: int, exponent: float, size: int) -> Int64s:
    share = np.arange(1, count + 1) ** -exponent
    return dice.choice(count, size, p=share / share.sum())
