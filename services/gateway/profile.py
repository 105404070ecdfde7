"""The merged profile: whose names it needs, and where they go."""

from collections.abc import Mapping

import msgspec

from services.events import KINDS
from services.metrics.model import Played, Profile

CHARTS = dict(zip(("top_ten_artists", "top_ten_albums", "top_ten_tracks"), KINDS, strict=True))


class NamedPlayed(msgspec.Struct, rename="camel"):
    """An artist, album or track, its name (null when none is known) and how often the user played it."""

    id: int
    name: str | None
    count_plays: int


class UserProfile(msgspec.Struct, rename="camel"):
    """A user's plays in numbers, with names. `warnings` names each part that could not be had."""

    user_id: int
    event_count: int
    first_listening_event: str
    last_listening_event: str
    top_ten_artists: list[NamedPlayed]
    top_ten_albums: list[NamedPlayed]
    top_ten_tracks: list[NamedPlayed]
    warnings: list[str] = []


def things(profile: Profile) -> list[tuple[str, int]]:
    """What has a name in `profile`: (kind, id)."""
    return [(kind, played.id) for chart, kind in CHARTS.items() for played in _chart(profile, chart)]


def named(profile: Profile, names: Mapping[tuple[str, int], str | None], warnings: list[str]) -> UserProfile:
    """`profile` with the names found."""
    charts = {
        chart: [NamedPlayed(one.id, names.get((kind, one.id)), one.count_plays) for one in _chart(profile, chart)]
        for chart, kind in CHARTS.items()
    }
    return UserProfile(
        profile.user_id,
        profile.event_count,
        profile.first_listening_event,
        profile.last_listening_event,
        **charts,
        warnings=warnings,
    )


def _chart(profile: Profile, chart: str) -> list[Played]:
    played: list[Played] = getattr(profile, chart)
    return played
