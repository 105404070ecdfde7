"""Answers about users. A gateway may have parts that are not here: `Client.get` has them all."""

from datetime import datetime

import msgspec


class Played(msgspec.Struct, rename="camel", frozen=True):
    """An artist, album or track, how often a user played it, and its name, None while none is known."""

    id: int
    count_plays: int
    name: str | None = None


class Why(msgspec.Struct, frozen=True):
    """An item that the user knows, and how many visits of the walks came through it."""

    id: int
    visits: int
    name: str | None = None


class Recommended(msgspec.Struct, frozen=True):
    """An item that the user may like and does not know. `why` is there when it was asked for."""

    id: int
    score: int
    name: str | None = None
    why: list[Why] = []


class Profile(msgspec.Struct, rename="camel", frozen=True):
    """What is known of a user. Members of parts that were not asked for are empty.

    warnings: what could not be had, or not in full.
    """

    user_id: int
    event_count: int = 0
    first_listening_event: datetime | None = None
    last_listening_event: datetime | None = None
    top_ten_artists: list[Played] = []
    top_ten_albums: list[Played] = []
    top_ten_tracks: list[Played] = []
    artist_recommendations: list[Recommended] = []
    album_recommendations: list[Recommended] = []
    track_recommendations: list[Recommended] = []
    warnings: list[str] = []


class PartitionDeletion(msgspec.Struct, frozen=True):
    """A partition of a service's state; `before` are, by topic, the offsets before which the user does not count."""

    partition: int
    done: bool
    before: dict[str, int]


class ServiceDeletion(msgspec.Struct, frozen=True):
    """A service that is to forget a user."""

    service: str
    partitions: list[PartitionDeletion]


class Deletion(msgspec.Struct, rename="camel", frozen=True):
    """The deletion of a user. `done`: every state has forgotten the user."""

    user_id: str
    done: bool
    services: list[ServiceDeletion]
