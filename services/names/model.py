"""Names by id, and the most recent plays of a user with the names that were known then."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from services.events import KINDS, LISTENING_EVENTS, Id, ListeningEvent, decode_event
from streamstate.app import App, Emit, Fold, FoldContext, Record, Source, View, Wanted, json_decoder
from streamstate.errors import BadRecord
from streamstate.keys import LONG, sortable
from streamstate.operators.tables import row, table
from streamstate.state.operations import Operation, PushRecent
from streamstate.state.reads import Newest, Read, Value

RECENT = 50
ENRICHED = "listening-events-enriched"


class Name(msgspec.Struct, gc=False):
    """A record of the topics artists, albums and tracks."""

    id: Id
    name: str


class EnrichedEvent(msgspec.Struct, rename="camel"):
    """A play with names; a name that was not known when the event came is null."""

    user_id: int
    timestamp: int
    artist_id: int
    artist_name: str | None
    album_id: int
    album_name: str | None
    track_id: int
    track_name: str | None


class Recent(msgspec.Struct, rename="camel"):
    """A user's most recent plays, newest first."""

    user_id: int
    recent: list[EnrichedEvent]


_decode_play = msgspec.json.Decoder(EnrichedEvent).decode
_decode_name = json_decoder(Name)


def decode_name(key: int, value: bytes) -> str:
    record = _decode_name(value)
    if record.id != key:
        msg = "the key is not the id of the value"
        raise BadRecord(msg)
    return record.name


def lookups(records: Sequence[Record[int, ListeningEvent]]) -> Wanted:
    """The ids of all events, by kind."""
    ids = zip(*(record.value.ids() for record in records), strict=True)
    return {kind: set(some) for kind, some in zip(KINDS, ids, strict=False)}


def fold(records: Sequence[Record[int, ListeningEvent]], context: FoldContext) -> Iterable[Operation | Emit]:
    """A left join: every event is published and kept, with or without names."""
    recent: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for record in records:
        event = enrich(record.value, context)
        text = msgspec.json.encode(event)
        yield Emit(ENRICHED, LONG.encode(event.user_id), text, record)
        # The offset keeps two equal plays apart and orders those of one moment.
        recent[event.user_id].append((event.timestamp, f"{sortable(record.offset)} {text.decode()}"))
    for user, plays in recent.items():
        yield PushRecent(_recent(user), {text: time for time, text in heapq.nlargest(RECENT, plays)}, keep=RECENT)


def enrich(event: ListeningEvent, context: FoldContext) -> EnrichedEvent:
    artist, album, track = (context.rows[kind].get(item) for kind, item in zip(KINDS, event.ids(), strict=True))
    return EnrichedEvent(
        event.user_id, event.timestamp, event.artist_id, artist, event.album_id, album, event.track_id, track
    )


def recent_reads(user: int) -> Sequence[Read]:
    return [Newest(_recent(user), RECENT)]


def recent(user: int, values: Sequence[Any]) -> Recent | None:
    """The most recent plays, newest first, None for a user who never played anything."""
    (plays,) = values
    events = [_decode_play(text.partition(" ")[2]) for text, _time in plays]
    return Recent(user, events) if events else None


def name(key: int, values: Sequence[Any]) -> Name | None:
    (value,) = values
    return None if value is None else Name(key, value.decode())


def _name_view(kind: str) -> View[int]:
    def reads(key: int) -> Sequence[Read]:
        return [Value(row(kind, key))]

    path, summary = f"/v1/{kind}/<key>", f"One of the {kind} by id"
    return View(name=kind, path=path, summary=summary, topic=kind, key=LONG, reads=reads, answer=name, answers=Name)


APP = App(
    name="names",
    folds=(
        *(table(kind, LONG, decode_name) for kind in KINDS),
        Fold((Source(LISTENING_EVENTS, LONG, decode_event),), fold, lookups),
    ),
    views=(
        *map(_name_view, KINDS),
        View(
            name="recent",
            path="/v1/users/<key>/recent",
            summary="The most recent plays of a user, with names",
            topic=LISTENING_EVENTS,
            key=LONG,
            reads=recent_reads,
            answer=recent,
            answers=Recent,
        ),
    ),
)


def _recent(user: int) -> str:
    return f"user:{user}:recent"
