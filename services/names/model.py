"""Names by id, a user's most recent plays by ids, and a topic of all plays with their names."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from services.events import KINDS, PLAYS, Id, ListeningEvent
from streamstate.app import App, Emit, Lookups, Record, Rows
from streamstate.functions import Output, Recent, State, fold, outputs, row_view, source, table, view
from streamstate.keys import LONG
from streamstate.view import NamedIds, Part

RECENT = 50
ENRICHED = "listening-events-enriched"
EXAMPLES = {"artists": "Prince", "albums": "1999", "tracks": "Delirious"}


class Name(msgspec.Struct, gc=False):
    """A record of the topics artists, albums and tracks."""

    id: Id
    name: str


class EnrichedEvent(msgspec.Struct, rename="camel"):
    """A play with names; an unknown name is null."""

    user_id: int
    timestamp: int
    artist_id: int
    artist_name: str | None
    album_id: int
    album_name: str | None
    track_id: int
    track_name: str | None


class RecentPlays(msgspec.Struct, rename="camel"):
    """A user's most recent plays, newest first, without names."""

    user_id: int
    recent: list[ListeningEvent]


NAMES = source("artists", Name, LONG, key_is="id")
"""A topic of names; albums and tracks have the same records."""
ENRICHED_EVENTS = Output(ENRICHED, EnrichedEvent, LONG)


class UserPlays(State, by=PLAYS, users=True):
    """The most recent plays of a user, as artist, album and track."""

    plays = Recent(RECENT)


def decode_name(key: int, value: bytes) -> str:
    name: Name = NAMES.decode(key, value)
    return name.name


def lookups(records: Sequence[Record[int, ListeningEvent]]) -> Lookups:
    """The ids of all events, by kind."""
    ids = zip(*(record.value.ids() for record in records), strict=True)
    return dict(zip(KINDS, ids, strict=False))


@fold(PLAYS, version=2, lookups=lookups)
def play(record: Record[int, ListeningEvent], user: UserPlays, names: Rows) -> Iterator[Emit]:
    """Publish an event joined with its names (a left join), and store the event without names."""
    event = record.value
    known = (names[kind][item] for kind, item in zip(KINDS, event.ids(), strict=True))
    yield ENRICHED_EVENTS.emit(record, enrich(event, known))
    user.plays.add(record, " ".join(map(str, event.ids())), event.timestamp)


def enrich(event: ListeningEvent, names: Iterable[str | None]) -> EnrichedEvent:
    """`event` with its `names`, in the order of `KINDS`."""
    artist, album, track = names
    return EnrichedEvent(
        event.user_id, event.timestamp, event.artist_id, artist, event.album_id, album, event.track_id, track
    )


@view(
    "/v1/users/<key>/recent",
    RecentPlays(42, [ListeningEvent(42, 42, 42, 42, 1_767_297_600_000)]),
    names=NamedIds({f"recent.{kind.removesuffix('s')}Id": kind for kind in KINDS}, empty_warnings=False),
    part=Part(members=("recent",), by_default=False),
)
def recent(key: int, user: UserPlays) -> RecentPlays | None:
    """The most recent plays of a user."""
    events = [_event(key, ids, time) for ids, time in user.plays.newest()]
    return RecentPlays(key, events) if events else None


def _event(user: int, ids: str, time: int) -> ListeningEvent:
    artist, album, track = map(int, ids.split(" "))
    return ListeningEvent(user, artist, album, track, time)


APP = App(
    name="names",
    folds=(*(table(kind, LONG, decode_name) for kind in KINDS), play),
    views=(*(row_view(kind, LONG, f"/v1/{kind}/<key>", Name(42, EXAMPLES[kind]), Name) for kind in KINDS), recent),
    emits=outputs(ENRICHED_EVENTS),
)
