"""The invented catalogue and its listeners."""

import itertools
import json
import struct
from collections import Counter
from typing import Any

import pytest

from devkit import sample_events
from devkit.records import Event
from devkit.sample_events import Catalogue
from services.events import KINDS

NOW = 1_700_000_000_000
FIELDS = {"userId", "artistId", "albumId", "trackId", "timestamp"}


def take(count: int, seed: int = 1, users: int = 50) -> list[Event]:
    return list(itertools.islice(sample_events.events(CATALOGUE, seed, users, lambda: NOW), count))


CATALOGUE = Catalogue.make(1, artists=40)
EVENTS = take(60_000)


def parsed(event: Event) -> dict[str, Any] | None:
    """The event when it is usable, written apart from the code under test."""
    key, value = event
    try:
        fields = json.loads(value or b"")
    except ValueError:
        return None
    whole = fields.keys() == FIELDS and all(type(v) is int and 0 <= v < 2**63 for v in fields.values())
    return fields if whole and struct.pack(">q", fields["userId"]) == key else None


USABLE = [fields for fields in map(parsed, EVENTS) if fields]


def test_a_seed_gives_the_same_catalogue_and_events_again() -> None:
    assert Catalogue.make(1, artists=40) == CATALOGUE
    assert take(5_000) == EVENTS[:5_000]


def test_another_seed_gives_others() -> None:
    assert Catalogue.make(2, artists=40) != CATALOGUE
    assert take(5_000, seed=2) != EVENTS[:5_000]


def test_artists_have_2_to_5_albums_of_6_to_12_tracks() -> None:
    albums = Counter(artist for artist, _ in set(CATALOGUE.homes.values()))
    tracks = Counter(album for _, album in CATALOGUE.homes.values())
    assert albums.keys() == CATALOGUE.artists.keys()
    assert tracks.keys() == CATALOGUE.albums.keys()
    assert set(albums.values()) <= set(range(2, 6))
    assert set(tracks.values()) <= set(range(6, 13))


def test_events_tell_where_their_track_belongs() -> None:
    assert all(CATALOGUE.homes[e["trackId"]] == (e["artistId"], e["albumId"]) for e in USABLE)


def test_few_users_listen_most_and_users_keep_to_their_tastes() -> None:
    plays = Counter(e["userId"] for e in USABLE)
    assert plays.keys() == set(range(1, 51))
    assert plays[1] > 5 * plays[50]
    artists = Counter(e["artistId"] for e in USABLE if e["userId"] == 1)
    assert sum(count for _, count in artists.most_common(10)) > 0.6 * plays[1]


def test_events_are_out_of_order_by_minutes_and_never_ahead_of_the_clock() -> None:
    delays = [NOW - e["timestamp"] for e in USABLE]
    assert min(delays) >= 0
    assert 120_000 < max(delays) <= sample_events.LATE_MS


def test_one_event_in_two_thousand_cannot_be_used() -> None:
    assert 15 <= len(EVENTS) - len(USABLE) <= 50


def test_each_kind_of_broken_event_occurs() -> None:
    broken = [event for event in EVENTS if not parsed(event)]
    values = [value for _, value in broken if value is not None]
    documents = [json.loads(value) for value in values if value.endswith(b"}")]
    assert len(values) < len(broken)
    assert len(documents) < len(values)
    assert any("albumId" not in document for document in documents)
    assert any(document["artistId"] == "unknown" for document in documents)
    assert any(document["trackId"] >= 2**63 for document in documents)
    keys = {struct.pack(">q", document["userId"]) for document in documents}
    assert any(key not in keys for key, _ in broken)


def test_names_are_keyed_by_id_and_miss_a_few_tracks() -> None:
    named: dict[str, dict[int, str]] = {topic: {} for topic in KINDS}
    for topic, key, value in sample_events.names(CATALOGUE):
        record = json.loads(value)
        assert struct.pack(">q", record["id"]) == key
        named[topic][record["id"]] = record["name"]
    assert list(named.values()) == [CATALOGUE.artists, CATALOGUE.albums, CATALOGUE.tracks]
    assert 0 < len(CATALOGUE.homes.keys() - CATALOGUE.tracks.keys()) < 0.01 * len(CATALOGUE.homes)


def test_a_backlog_rises_to_now_and_stays_there() -> None:
    clock = sample_events.backlog(4, 1_000, lambda: NOW)
    assert [clock() for _ in range(6)] == [NOW - 1_000, NOW - 750, NOW - 500, NOW - 250, NOW, NOW]


@pytest.mark.parametrize("artists", [1, 3])
def test_a_small_catalogue_has_events_too(artists: int) -> None:
    catalogue = Catalogue.make(1, artists)
    assert len(list(itertools.islice(sample_events.events(catalogue, 1, 1, lambda: NOW), 100))) == 100
