"""Names by id, a user's most recent plays by ids, and a topic of all plays with their names."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from services.events import KINDS, LISTENING_EVENTS, Id, ListeningEvent, decode_event
from streamstate.app import App, Derived, Emit, Fold, FoldContext, Lookups, Record, Source
from streamstate.errors import BadRecord
from streamstate.formats.typed import json_decoder
from streamstate.keys import LONG, sortable
from streamstate.operators.tables import row, table
from streamstate.state.operations import Newest, Operation, PushRecent, Read, Value
from streamstate.view import NamedIds, Part, UserKey, UserState, View

RECENT = 50
EXAMPLES = {"artists": "Prince", "albums": "1999", "tracks": "Delirious"}
ENRICHED = "listening-events-enriched"


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


_decode_name = json_decoder(Name)


def decode_name(key: int, value: bytes) -> str:
    record = _decode_name(value)
    if record.id != key:
        msg = "the key is not the id of the value"
        raise BadRecord(msg)
    return record.name


def lookups(records: Sequence[Record[int, ListeningEvent]]) -> Lookups:
    """The ids of all events, by kind."""
    ids = zip(*(record.value.ids() for record in records), strict=True)
    return dict(zip(KINDS, ids, strict=False))


def fold(records: Sequence[Record[int, ListeningEvent]], context: FoldContext) -> Iterable[Operation | Emit]:
    """Publishes every event joined with its names (a left join), and stores the event without names."""
    plays: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for record in records:
        event = record.value
        names = (context.rows[kind][item] for kind, item in zip(KINDS, event.ids(), strict=True))
        yield Emit(ENRICHED, LONG.encode(event.user_id), msgspec.json.encode(enrich(event, names)), record)
        plays[event.user_id].append((event.timestamp, _member(record)))
    for user, timed in plays.items():
        yield PushRecent(_plays(user), {member: time for time, member in sorted(timed)[-RECENT:]}, keep=RECENT)


def enrich(event: ListeningEvent, names: Iterable[str | None]) -> EnrichedEvent:
    """`event` with its `names`, in the order of `KINDS`."""
    artist, album, track = names
    return EnrichedEvent(
        event.user_id, event.timestamp, event.artist_id, artist, event.album_id, album, event.track_id, track
    )


def recent_reads(user: int) -> Sequence[Read]:
    return [Newest(_plays(user), RECENT)]


def places(user: int) -> Iterable[UserKey]:
    return map(UserKey, recent_reads(user))


def recent(user: int, values: Sequence[Any]) -> RecentPlays | None:
    """The most recent plays, None for a user without plays."""
    (plays,) = values
    events = [_event(user, member, time) for member, time in plays]
    return RecentPlays(user, events) if events else None


def name(key: int, values: Sequence[Any]) -> Name | None:
    (value,) = values
    return None if value is None else Name(key, value)


def _name_view(kind: str) -> View[int]:
    def reads(key: int) -> Sequence[Read]:
        return [Value(row(kind, key))]

    path, summary, example = f"/v1/{kind}/<key>", f"One of the {kind} by id", Name(42, EXAMPLES[kind])
    return View(name=kind, path=path, summary=summary, topic=kind, key=LONG, reads=reads, answer=name, example=example)


APP = App(
    name="names",
    folds=(
        *(table(kind, LONG, decode_name) for kind in KINDS),
        Fold((Source(LISTENING_EVENTS, LONG, decode_event),), fold, lookups, users=UserState(places)),
    ),
    views=(
        *map(_name_view, KINDS),
        View(
            name="recent",
            path="/v1/users/<key>/recent",
            summary="The most recent plays of a user",
            topic=LISTENING_EVENTS,
            key=LONG,
            reads=recent_reads,
            answer=recent,
            example=RecentPlays(42, [ListeningEvent(42, 42, 42, 42, 1_767_297_600_000)]),
            names=NamedIds({f"recent.{kind.removesuffix('s')}Id": kind for kind in KINDS}, empty_warnings=False),
            part=Part(members=("recent",), by_default=False),
        ),
    ),
    emits={ENRICHED: Derived(LONG, EnrichedEvent)},
)


def _plays(user: int) -> str:
    return f"user:{user}:plays"


def _member(record: Record[int, ListeningEvent]) -> str:
    """The offset distinguishes equal plays and orders plays of the same moment."""
    artist, album, track = record.value.ids()
    return f"{sortable(record.offset)} {artist} {album} {track}"


def _event(user: int, member: str, time: int) -> ListeningEvent:
    _offset, artist, album, track = member.split(" ")
    return ListeningEvent(user, int(artist), int(album), int(track), time)
