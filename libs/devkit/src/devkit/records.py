"""The records of the music topics as bytes: an event, and a name."""

import json
from collections.abc import Callable, Iterable, Iterator

from streamstate.kafka.producer import Outgoing
from streamstate.keys import LONG

Event = tuple[bytes, bytes | None]
"""Key and value for `listening-events`; a value of None is a null."""

Name = tuple[str, bytes, bytes]
"""Topic (artists, albums or tracks), key and value."""

Recode = Callable[[Iterable[Outgoing]], Iterator[Outgoing]]
"""Converts records to another format."""

_EVENT = b'{"userId":%d,"artistId":%d,"albumId":%d,"trackId":%d,"timestamp":%d}'


def event(user: int, artist: int, album: int, track: int, timestamp: int) -> tuple[bytes, bytes]:
    """A listening event; `timestamp` in ms since 1970. Raises `OverflowError` for a user id beyond 64 bits."""
    return LONG.encode(user), _EVENT % (user, artist, album, track, timestamp)


def name(topic: str, identifier: int, text: str) -> Name:
    """The name of an artist, album or track. Raises `OverflowError` for an id beyond 64 bits."""
    value = json.dumps({"id": identifier, "name": text}, ensure_ascii=False, separators=(",", ":"))
    return topic, LONG.encode(identifier), value.encode()
