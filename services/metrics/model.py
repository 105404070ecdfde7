"""The profile of a user: the fold of a play, and the view."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from services.events import KINDS, LISTENING_EVENTS, ListeningEvent, decode_event
from services.metrics import plays as all_plays
from streamstate.app import App, Effect, Fold, FoldContext, Record, Source
from streamstate.keys import LONG, sortable, unsortable
from streamstate.state.operations import Field, Fields, IncrementScores, Merge, Read, Top
from streamstate.view import MOST_MEMBERS, NamedIds, Part, UserKey, UserState, View

TOP = 10
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


def fold(records: Sequence[Record[int, ListeningEvent]], _context: FoldContext) -> Iterable[Effect]:
    """The operations of a user are commutative, so the order of events does not matter."""
    plays: defaultdict[int, list[ListeningEvent]] = defaultdict(list)
    for record in records:
        plays[record.key].append(record.value)
    for user, events in plays.items():
        times = [event.timestamp for event in events]
        yield Merge(_user(user), add={"count": len(events)}, least={"first": min(times)}, most={"last": max(times)})
        for kind, ids in zip(KINDS, zip(*(event.ids() for event in events), strict=True), strict=True):
            yield IncrementScores(_chart(user, kind), tally(ids))


def tally(ids: Iterable[int]) -> dict[str, int]:
    """How often each id occurs, by its sortable text. For few ids, where a Counter costs more to make than to fill."""
    counts: dict[str, int] = {}
    for item in ids:
        member = sortable(item)
        counts[member] = counts.get(member, 0) + 1
    return counts


def reads(user: int, n: int = TOP) -> Sequence[Read]:
    return [Fields(_user(user)), *(Top(_chart(user, kind), n) for kind in KINDS)]


def places(user: int) -> Iterable[UserKey]:
    return map(UserKey, reads(user, MOST_MEMBERS))


def version(user: int) -> Read:
    """Every play counts."""
    return Field(_user(user), "count")


def profile(user: int, values: Sequence[Any]) -> UserMetrics | None:
    """The profile without names, None for a user without plays."""
    fields, *charts = values
    if not fields:
        return None
    artists, albums, tracks = ([PlayCount(unsortable(member), plays) for member, plays in chart] for chart in charts)
    return UserMetrics(
        user, fields["count"], instant(fields["first"]), instant(fields["last"]), artists, albums, tracks
    )


def instant(milliseconds: int) -> str:
    """ISO 8601 in UTC, with a fraction only if not zero."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment.isoformat(timespec='milliseconds' if milliseconds % 1000 else 'seconds')}Z"


def _user(user: int) -> str:
    return f"user:{user}"


def _chart(user: int, kind: str) -> str:
    return f"user:{user}:{kind}"


APP = App(
    name="metrics",
    folds=(
        Fold(
            (Source(LISTENING_EVENTS, LONG, decode_event),),
            fold,
            version=2,
            users=UserState(places),
            shared=all_plays.tally,
        ),
    ),
    views=(
        View(
            name="metrics",
            path="/v1/users/<key>/metrics",
            summary="The plays of a user in numbers",
            topic=LISTENING_EVENTS,
            key=LONG,
            reads=reads,
            answer=profile,
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
            version=version,
        ),
        all_plays.VIEW,
    ),
)
