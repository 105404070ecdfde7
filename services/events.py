"""The listening event, shared by all services."""

from typing import Annotated

import msgspec

from streamstate.functions import source
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


PLAYS = source(LISTENING_EVENTS, ListeningEvent, LONG, key_is="user_id", times={"timestamp": "ms"})
"""The topic of plays, by user."""
