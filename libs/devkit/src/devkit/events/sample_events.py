"""A generated music catalogue and its listeners, determined by a seed."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from devkit.events import records
from services.events import KINDS
from streamstate.keys import LONG

Clock = Callable[[], int]
"""Gives the time in ms since 1970."""

NAMELESS = 200
"""The number of tracks for each track without a name record."""
BROKEN = 2_000
"""The number of events for each broken event."""
LATE_MS = 180_000
"""How late the latest events are."""

_GENRES = len(records.GENRES)
_BLOCK = 4_096
_FAULTS = 6


@dataclass(frozen=True)
class Catalogue:
    """Names by id (from 1 each), and artist and album of each track. A track only in `homes` has no name."""

    artists: dict[int, str]
    albums: dict[int, str]
    tracks: dict[int, str]
    homes: dict[int, tuple[int, int]]
    """Track id -> (artist id, album id)."""

    @classmethod
    def make(cls, seed: int, artists: int = 400) -> "Catalogue":
        """`artists` artists with 2 to 5 albums each, of 6 to 12 tracks each."""
        draw = Random(seed)  # noqa: S311, nothing secret
        made = cls({}, {}, {}, {})
        for artist in range(1, artists + 1):
            made.artists[artist] = name(draw, "artist")
            for _ in range(draw.randint(2, 5)):
                album = len(made.albums) + 1
                made.albums[album] = name(draw, "album")
                for _ in range(draw.randint(6, 12)):
                    track = len(made.homes) + 1
                    made.homes[track] = (artist, album)
                    if track % NAMELESS:
                        made.tracks[track] = name(draw, "track")
        return made


def names(catalogue: Catalogue) -> Iterator[records.Name]:
    """The records of the topics artists, albums and tracks."""
    tables = (catalogue.artists, catalogue.albums, catalogue.tracks)
    for topic, table in zip(KINDS, tables, strict=True):
        for identifier, text in table.items():
            yield records.name(topic, identifier, text)


def backlog(events: int, span_ms: int, now: Clock) -> Clock:
    """A clock whose first `events` readings rise evenly over the last `span_ms` ms; further readings are `now`."""
    end = now()
    readings = itertools.count()

    def clock() -> int:
        reading = next(readings)
        return end - span_ms + span_ms * reading // events if reading < events else now()

    return clock


def events(catalogue: Catalogue, seed: int, users: int, clock: Clock, broken: int = BROKEN) -> Iterator[records.Event]:
    """Endless events of `users` users (ids from 1; the lower, the busier), some late, 1 of `broken` broken (0: none).

    An event happened up to `LATE_MS` before `clock`, read once per event.
    """
    draw = np.random.default_rng(seed)
    listeners = _Listeners(catalogue, users, draw)
    while True:
        faults = draw.integers(broken * _FAULTS, size=_BLOCK).tolist() if broken else [_FAULTS] * _BLOCK
        block = zip(*listeners.block(draw), _delays(draw), faults, strict=True)
        for user, track, delay, fault in block:
            artist, album = catalogue.homes[track]
            key, value = records.detailed_event(user, artist, album, track, clock() - delay)
            yield (key, value) if fault >= _FAULTS else _broken(fault, key, value)


class _Listeners:
    """The choice of tracks: each user prefers two genres; a genre has the same popular tracks for all users."""

    def __init__(self, catalogue: Catalogue, users: int, draw: np.random.Generator) -> None:
        tracks = draw.permutation(list(catalogue.homes))
        genre = np.array([catalogue.homes[track][0] % _GENRES for track in tracks.tolist()])
        charts = [tracks[genre == g] for g in range(_GENRES) if g in genre]
        self._tracks = np.concatenate(charts)
        # A rising scale for all charts: genre g is the interval (g, g + 1], so a single search serves all charts.
        self._scale = np.concatenate([g + _zipf(len(chart), 1.0) for g, chart in enumerate(charts)])
        self._activity = _zipf(users, 0.8)
        self._genres = len(charts)
        self._favourites = draw.integers(self._genres, size=(users, 2))

    def block(self, draw: np.random.Generator) -> tuple[list[int], list[int]]:
        """User ids and track ids of the next `_BLOCK` events."""
        users = np.searchsorted(self._activity, draw.random(_BLOCK))
        mood = draw.random(_BLOCK)
        first, second = self._favourites[users].T
        other = draw.integers(self._genres, size=_BLOCK)
        genres = np.where(mood < 0.65, first, np.where(mood < 0.9, second, other))
        tracks = self._tracks[np.searchsorted(self._scale, genres + draw.random(_BLOCK))]
        return (users + 1).tolist(), tracks.tolist()


def _zipf(size: int, exponent: float) -> NDArray[np.float64]:
    """Cumulative probabilities of the ranks 1 to `size`; the last is 1."""
    weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    cumulative: NDArray[np.float64] = np.cumsum(weights)
    cumulative /= cumulative[-1]
    return cumulative


def _delays(draw: np.random.Generator) -> list[int]:
    """How many ms ago the next `_BLOCK` events happened: most just now, some minutes ago."""
    usual = draw.exponential(500, _BLOCK).clip(max=LATE_MS)
    late = draw.uniform(0, LATE_MS, _BLOCK)
    delays: list[int] = np.where(draw.random(_BLOCK) < 0.05, late, usual).astype(np.int64).tolist()
    return delays


def _broken(fault: int, key: bytes, value: bytes) -> records.Event:
    event = json.loads(value)
    match fault:
        case 0:
            return key, None
        case 1:
            return key, value[:-1]
        case 2:
            return LONG.encode(event["userId"] + 1), value
        case 3:
            del event["albumId"]
        case 4:
            event["artistId"] = "unknown"
        case _:
            event["trackId"] = 2**64
    return key, json.dumps(event, separators=(",", ":")).encode()


_WORDS = {
    "adjective": (
        "Amber Bitter Blue Borrowed Brave Broken Burning Careless Distant Electric Empty Fading "
        "Gentle Golden Hollow Idle Little Lonely Lost Midnight Northern Paper Patient Quiet "
        "Restless Salted Scarlet Silent Silver Sleeping Slow Stolen Sudden Tender Velvet "
        "Wandering Wild Winter Wooden Young"
    ),
    "thing": (
        "Anchor Arrow Avenue Bird Bridge Candle Canyon Carousel Cloud Comet Compass Ember Engine "
        "Feather Fire Garden Harbour Heart Horizon Island Lantern Letter Lighthouse Machine "
        "Meadow Mirror Moon Mountain Ocean Orchard Parade River Shadow Signal Sparrow Station "
        "Storm Summer Telescope Tiger Tower Train Window Willow"
    ),
    "verb": (
        "Breathing Building Calling Carrying Chasing Climbing Counting Crossing Dancing Dreaming "
        "Drifting Falling Finding Following Forgetting Holding Leaving Losing Painting Reading "
        "Remembering Running Singing Waiting"
    ),
    "place": (
        "Lisbon Oslo Havana Kyoto Marseille Tbilisi Reykjavik Valparaíso Zürich Kraków Malmö "
        "Naples Dakar Cork Montréal Tromsø Galway Ghent Lagos Porto"
    ),
    "first": (
        "Ada Alma Anouk Björn Cleo Dario Edith Emil Farah Greta Hugo Ines Iris Jonas Kaia Leon "
        "Lúcia Mateo Mira Nadia Noé Olga Otto Paloma Ravi Rosa Saskia Tomás Vera Yusuf"
    ),
    "last": (
        "Abara Bergström Castellano Dvořák Eriksen Fontaine Galván Hartmann Ito Jensen Kowalski "
        "Lindqvist Moreau Novák Okafor Petrov Quintero Rossi Sørensen Tanaka Ueda Varga Weiss "
        "Yilmaz Zamora"
    ),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
}
_LISTS = {kind: words.split() for kind, words in _WORDS.items()}

_PATTERNS = {
    "artist": (
        "The {adjective} {thing}s|{first} {last}|{first} {last} Quartet|{first} & the {thing}s|"
        "{adjective} {thing}|{place} {thing} Orchestra|{verb} {place}|{adjective} {last}"
    ),
    "album": (
        "{adjective} {thing}|Songs for the {adjective} {thing}|{verb} {place}|Live in {place}|"
        "The {thing} Sessions|{adjective} & {verb}"
    ),
    "track": (
        "{verb} the {thing}|{adjective} {thing}|{thing} in {place}|{day} {thing}|{first}'s {thing}|"
        '{verb} on a {adjective} {day}|The "{adjective}" One|{verb} ({day} Version)'
    ),
}
"""Patterns of names by kind, separated by `|`."""


def name(draw: Random, kind: str) -> str:
    """The name of an artist, album or track; two items may have the same name."""
    words = {sort: draw.choice(words) for sort, words in _LISTS.items()}
    return draw.choice(_PATTERNS[kind].split("|")).format_map(words)
