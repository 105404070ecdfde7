"""Answers about users. A gateway may have further parts, which `Client.get` returns."""

from datetime import datetime

import msgspec


class Played(msgspec.Struct, rename="camel", frozen=True):
    """An artist, album or track, the number of the user's plays, and the name, None while unknown."""

    id: int
    count_plays: int
    name: str | None = None


class Why(msgspec.Struct, frozen=True):
    """A known item of the user, and the number of visits of the walks through the item."""

    id: int
    visits: int
    name: str | None = None


class Recommended(msgspec.Struct, frozen=True):
    """A recommended item, unknown to the user. `why` is filled by `explain`."""

    id: int
    score: int
    name: str | None = None
    why: list[Why] = []


class ListenerProfile(msgspec.Struct, rename="camel", frozen=True):
    """A user's profile. Members of parts outside the request are empty.

    warnings: missing and incomplete parts.
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
    """A partition of a service's state; `before` has, by topic, the first offset that counts again."""

    partition: int
    done: bool
    before: dict[str, int]


class ServiceDeletion(msgspec.Struct, frozen=True):
    """The progress of a deletion in a service."""

    service: str
    partitions: list[PartitionDeletion]


class Deletion(msgspec.Struct, rename="camel", frozen=True):
    """The deletion of a user. `done`: every state has forgotten the user."""

    user_id: str
    done: bool
    services: list[ServiceDeletion]
