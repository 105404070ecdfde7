"""Plays in numbers: of each user, with the most played artists, albums and tracks, and of all users by hour."""

from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET, UnsetType

from services.events import KINDS, LISTENING_EVENTS, PLAYS, ListeningEvent
from streamstate.app import App
from streamstate.profile import EVER, Found, Profile, Spans, count, least, most, other_name, top
from streamstate.view import NamedIds, Part

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001, an offset would be part of the text


class PlayCount(msgspec.Struct, rename="camel", gc=False):
    """An artist, album or track and the number of the user's plays."""

    id: int
    count_plays: int


class UserMetrics(msgspec.Struct, rename="camel"):
    """A user's plays in numbers. The top tens are ordered by plays, ties by id; instants are ISO 8601 in UTC.

    other_plays: of artists, albums or tracks beyond the first 100,000, where a user has more.
    """

    user_id: int
    event_count: int
    first_listening_event: str
    last_listening_event: str
    top_ten_artists: list[PlayCount]
    top_ten_albums: list[PlayCount]
    top_ten_tracks: list[PlayCount]
    other_plays: dict[str, int] | UnsetType = UNSET


PLAYED_AT = {"type": "int", "member": "timestamp"}
FIELDS = {"playedAt": PLAYED_AT, "artistId": "int", "albumId": "int", "trackId": "int"}


class Metrics(Profile, topic=LISTENING_EVENTS, path="/v1/users/<key>/metrics", fields=FIELDS):
    """The plays of a user in numbers."""

    count = count()
    first = least("playedAt")
    last = most("playedAt")
    artists = top(10, "artistId")
    albums = top(10, "albumId")
    tracks = top(10, "trackId")


class Plays(Profile, topic=LISTENING_EVENTS, path="/v1/plays"):
    """All plays, by day and by hour."""

    days = count(over="32d", every="1d")
    hours = count(over="32d", every="1h")
    count = count()


def metrics(user: int, found: Found, _spans: Spans) -> UserMetrics:
    """The answer without names."""
    number, first, last, *tops = (found[name][EVER] for name in Metrics.declared.measures)
    artists, albums, tracks = ([PlayCount(*pair) for pair in pairs] for pairs in tops)
    others = {kind: found[name][EVER] for kind in KINDS if (name := other_name(kind)) in found}
    return UserMetrics(user, number, instant(first), instant(last), artists, albums, tracks, others or UNSET)


def instant(milliseconds: int) -> str:
    """ISO 8601 in UTC, with a fraction only if not zero."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment.isoformat(timespec='milliseconds' if milliseconds % 1000 else 'seconds')}Z"


ARTISTS, ALBUMS, TRACKS = [PlayCount(42, 3)], [PlayCount(42, 2), PlayCount(43, 1)], [PlayCount(42, 3)]
VIEW = Metrics.answered_by(
    metrics,
    example=UserMetrics(42, 3, "2026-01-01T20:15:00Z", "2026-01-02T08:00:00.250Z", ARTISTS, ALBUMS, TRACKS),
    names=NamedIds({f"topTen{kind.capitalize()}.id": kind for kind in KINDS}),
    part=Part(required=True),
)
APP = App("metrics", (Metrics.over(PLAYS, ListeningEvent, overall=Plays),), (VIEW, *Plays.app.views))
