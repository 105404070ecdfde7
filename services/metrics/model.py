"""The profile of a user: plays, the first and the last, and the most played artists, albums and tracks."""

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from services.events import KINDS, LISTENING_EVENTS, PLAYS, ListeningEvent
from services.metrics import plays
from streamstate.app import App
from streamstate.profile import EVER, Profile, count, least, most, top
from streamstate.profile.answer_type import Found, Spans
from streamstate.view import NamedIds, Part

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001, an offset would be part of the text


class PlayCount(msgspec.Struct, rename="camel", gc=False):
    """An artist, album or track and the number of the user's plays."""

    id: int
    count_plays: int


class UserMetrics(msgspec.Struct, rename="camel"):
    """A user's plays in numbers. The top tens are ordered by plays, ties by id; instants are ISO 8601 in UTC."""

    user_id: int
    event_count: int
    first_listening_event: str
    last_listening_event: str
    top_ten_artists: list[PlayCount]
    top_ten_albums: list[PlayCount]
    top_ten_tracks: list[PlayCount]


class Metrics(
    Profile,
    topic=LISTENING_EVENTS,
    path="/v1/users/<key>/metrics",
    fields={
        "playedAt": {"type": "int", "member": "timestamp"},
        "artistId": "int",
        "albumId": "int",
        "trackId": "int",
    },
):
    """The plays of a user in numbers."""

    count = count()
    first = least("playedAt")
    last = most("playedAt")
    artists = top(10, "artistId")
    albums = top(10, "albumId")
    tracks = top(10, "trackId")


def metrics(user: int, found: Found, _spans: Spans) -> UserMetrics:
    """The answer without names."""
    number, first, last, *tops = (found[name][EVER] for name in found)
    charts = ([PlayCount(*pair) for pair in pairs] for pairs in tops)
    return UserMetrics(user, number, instant(first), instant(last), *charts)


def instant(milliseconds: int) -> str:
    """ISO 8601 in UTC, with a fraction only if not zero."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment.isoformat(timespec='milliseconds' if milliseconds % 1000 else 'seconds')}Z"


VIEW = Metrics.answered_by(
    metrics,
    example=UserMetrics(
        user_id=42,
        event_count=3,
        first_listening_event="2026-01-01T20:15:00Z",
        last_listening_event="2026-01-02T08:00:00.250Z",
        top_ten_artists=[PlayCount(42, 3)],
        top_ten_albums=[PlayCount(42, 2), PlayCount(43, 1)],
        top_ten_tracks=[PlayCount(42, 2), PlayCount(44, 1)],
    ),
    names=NamedIds({f"topTen{kind.capitalize()}.id": kind for kind in KINDS}),
    part=Part(required=True),
)
FOLD = replace(Metrics.over(PLAYS, ListeningEvent), shared=plays.tally)
APP = App(name="metrics", folds=(FOLD,), views=(VIEW, plays.VIEW))
