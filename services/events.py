"""The listening event, shared by all services."""

from typing import Annotated

import msgspec

from streamstate.app import Source
from streamstate.errors import BadRecord
from streamstate.formats.event_times import EventTimes
from streamstate.formats.typed import json_decoder
from streamstate.keys import LONG, LONG_MAX

Id = Annotated[int, msgspec.Meta(ge=0, le=LONG_MAX)]
YEAR_9999_MS = 253_402_300_799_999
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=YEAR_9999_MS)]

LISTENING_EVENTS = "listening-events"
KINDS = ("artists", "albums", "tracks")
"""The kinds of items: the words name topics, tables, charts and URL paths."""


class ListeningEvent(msgspec.Struct, gc=False, rename="camel"):
    """A play. `timestamp` is the moment of the play, in milliseconds since 1970 (UTC)."""

    user_id: Id
    artist_id: Id
    album_id: Id
    track_id: Id
    timestamp: Milliseconds

    def ids(self) -> tuple[int, int, int]:
        """The ids in the order of `KINDS`."""
        return self.artist_id, self.album_id, self.track_id


_decode = json_decoder(ListeningEvent)


def decode_event(user_id: int, value: bytes | None) -> ListeningEvent:
    """The event of a record; raises `BadRecord` or `msgspec.ValidationError` for an invalid record."""
    event = _decode(value)
    if event.user_id != user_id:
        msg = "the key is not the userId of the value"
        raise BadRecord(msg)
    return event


PLAYS: Source[int, ListeningEvent] = Source(
    LISTENING_EVENTS, LONG, decode_event, times=EventTimes({"timestamp": ("timestamp", "ms")})
)
"""The topic of plays, by user."""
