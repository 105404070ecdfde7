"""The merged profile: the plays in numbers, decoded into structs that have room for names and recommendations."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from services.events import KINDS
from services.gateway import recommended
from services.gateway.names import Names, Thing
from services.gateway.recommended import Named, NamedItem, NamedRecommendations


class NamedPlayed(Named, rename="camel", kw_only=True):
    """An artist, album or track, its name (null when none is known) and how often the user played it."""

    count_plays: int


class UserMetrics(msgspec.Struct, rename="camel", kw_only=True):
    """A user's plays in numbers, with names. `warnings` names each part that could not be had."""

    user_id: int
    event_count: int
    first_listening_event: str
    last_listening_event: str
    top_ten_artists: list[NamedPlayed]
    top_ten_albums: list[NamedPlayed]
    top_ten_tracks: list[NamedPlayed]
    warnings: list[str] = []


class UserProfile(UserMetrics, kw_only=True):
    """All that is known of a user: plays in numbers, and what may be liked, best first.

    `fallbacks` names the recommendations that are only what is popular, since walks from this user found nothing new.
    `warnings` names each part that could not be had, or not in full.
    """

    artist_recommendations: list[NamedItem] = []
    album_recommendations: list[NamedItem] = []
    track_recommendations: list[NamedItem] = []
    fallbacks: list[str] = []


M = TypeVar("M", bound=UserMetrics)


def things(metrics: UserMetrics) -> list[Thing]:
    """What has a name in the charts of `metrics`: (kind, id)."""
    return [(kind, played.id) for kind, chart in _charts(metrics) for played in chart]


def named(metrics: M, names: Names, warnings: list[str]) -> M:
    """`metrics` with its names."""
    for kind, chart in _charts(metrics):
        for played in chart:
            played.name = names.get((kind, played.id))
    metrics.warnings = warnings
    return metrics


def merged(
    profile: UserProfile, by_kind: Mapping[str, NamedRecommendations], names: Names, warnings: list[str]
) -> UserProfile:
    """`profile` with its names and what was recommended by kind; a kind that could not be had stays empty."""
    partial = [f"{member(kind)}: partial, time ran out" for kind, answer in by_kind.items() if answer.partial]
    named(profile, names, [*warnings, *partial])
    items = {kind: recommended.named(kind, answer, names, []).items for kind, answer in by_kind.items()}
    profile.artist_recommendations, profile.album_recommendations, profile.track_recommendations = (
        items.get(kind, []) for kind in KINDS
    )
    profile.fallbacks = [member(kind) for kind, answer in by_kind.items() if answer.fallback]
    return profile


def _charts(metrics: UserMetrics) -> Iterable[tuple[str, list[NamedPlayed]]]:
    return zip(KINDS, (metrics.top_ten_artists, metrics.top_ten_albums, metrics.top_ten_tracks), strict=True)


def member(kind: str) -> str:
    """The member of a profile that holds the recommendations of `kind`, as JSON has it."""
    return f"{kind.removesuffix('s')}Recommendations"
