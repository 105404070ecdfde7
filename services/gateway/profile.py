"""The merged profile: which names it needs, and where they go."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import asdict

from services.events import KINDS
from services.gateway.names import Names, Thing
from services.gateway.recommended import NamedItem, named_items
from services.metrics.model import Played, Profile
from services.recommendations.answers import Recommendations

CHARTS = dict(zip(("top_ten_artists", "top_ten_albums", "top_ten_tracks"), KINDS, strict=True))


class NamedPlayed(msgspec.Struct, rename="camel"):
    """An artist, album or track, its name (null when none is known) and how often the user played it."""

    id: int
    name: str | None
    count_plays: int


class Plays(msgspec.Struct, rename="camel"):
    """A user's plays in numbers, with names."""

    user_id: int
    event_count: int
    first_listening_event: str
    last_listening_event: str
    top_ten_artists: list[NamedPlayed]
    top_ten_albums: list[NamedPlayed]
    top_ten_tracks: list[NamedPlayed]


class UserMetrics(Plays):
    """A user's plays in numbers, with names. `warnings` names each part that could not be had."""

    warnings: list[str]


class UserProfile(Plays):
    """All that is known of a user: plays in numbers, and what may be liked, best first.

    `fallbacks` names the recommendations that are only what is popular, since walks from this user found nothing new.
    `warnings` names each part that could not be had, or not in full.
    """

    artist_recommendations: list[NamedItem]
    album_recommendations: list[NamedItem]
    track_recommendations: list[NamedItem]
    fallbacks: list[str]
    warnings: list[str]


def things(profile: Profile) -> list[Thing]:
    """What has a name in `profile`: (kind, id)."""
    return [(kind, played.id) for chart, kind in CHARTS.items() for played in _chart(profile, chart)]


def metrics(profile: Profile, names: Names, warnings: list[str]) -> UserMetrics:
    """`profile` with its names."""
    return UserMetrics(**asdict(_plays(profile, names)), warnings=warnings)


def merged(
    profile: Profile, recommended: Mapping[str, Recommendations], names: Names, warnings: list[str]
) -> UserProfile:
    """`profile` with its names, and the recommendations by kind; a kind that could not be had is missing there."""
    artists, albums, tracks = (
        named_items(kind, recommended[kind], names) if kind in recommended else [] for kind in KINDS
    )
    fallbacks = [member(kind) for kind, answer in recommended.items() if answer.fallback]
    partial = [f"{member(kind)}: partial, time ran out" for kind, answer in recommended.items() if answer.partial]
    return UserProfile(
        **asdict(_plays(profile, names)),
        artist_recommendations=artists,
        album_recommendations=albums,
        track_recommendations=tracks,
        fallbacks=fallbacks,
        warnings=[*warnings, *partial],
    )


def member(kind: str) -> str:
    """The member of a profile that holds the recommendations of `kind`, as JSON has it."""
    return f"{kind.removesuffix('s')}Recommendations"


def _plays(profile: Profile, names: Names) -> Plays:
    artists, albums, tracks = (
        [NamedPlayed(item.id, names.get((kind, item.id)), item.count_plays) for item in _chart(profile, chart)]
        for chart, kind in CHARTS.items()
    )
    first, last = profile.first_listening_event, profile.last_listening_event
    return Plays(profile.user_id, profile.event_count, first, last, artists, albums, tracks)


def _chart(profile: Profile, chart: str) -> list[Played]:
    played: list[Played] = getattr(profile, chart)
    return played
