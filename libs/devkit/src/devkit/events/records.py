"""The records of the music topics as bytes: an event, and a name."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator

from streamstate.kafka.producer import Outgoing
from streamstate.keys import LONG

Event = tuple[bytes, bytes | None]
"""Key and value for `listening-events`; a value of None is a null."""

Name = tuple[str, bytes, bytes]
"""Topic (artists, albums or tracks), key and value."""

Recode = Callable[[Iterable[Outgoing]], Iterator[Outgoing]]
"""Converts records to another format."""

GENRES = (
    *("alternative", "blues", "classical", "country", "dance", "electronic", "folk", "funk", "gospel", "hip hop"),
    *("indie", "jazz", "latin", "metal", "pop", "punk", "reggae", "rock", "soul", "world"),
)
"""The genre of an artist is at the index `artist % len(GENRES)`."""
_DEVICES = ("phone", "phone", "phone", "phone", "desktop", "desktop", "speaker", "radio", "car", "tv")
"""Repeated by popularity."""

_EVENT = b'{"userId":%d,"artistId":%d,"albumId":%d,"trackId":%d,"timestamp":%d}'
_DETAILS = b',"device":"%s","genre":"%s","durationMs":%d}'


def event(user: int, artist: int, album: int, track: int, timestamp: int) -> tuple[bytes, bytes]:
    """A listening event; `timestamp` in ms since 1970. Raises `OverflowError` for a user id beyond 64 bits."""
    return LONG.encode(user), _EVENT % (user, artist, album, track, timestamp)


def detailed_event(user: int, artist: int, album: int, track: int, timestamp: int) -> tuple[bytes, bytes]:
    """A listening event with invented optional members, which are a function of the arguments.

    A user has one or two devices, a track a length of 90 to 600 s; a tenth of all plays ends after 5 to 30 s.
    """
    key, value = event(user, artist, album, track, timestamp)
    draw = _fraction(user, track, timestamp)
    device = _DEVICES[int(10 * _fraction(user, draw < 0.2))]
    duration = 5_000 + 25_000 * (draw * 10 % 1) if draw > 0.9 else 90_000 + 510_000 * _fraction(track) ** 4
    return key, value[:-1] + _DETAILS % (device.encode(), GENRES[artist % len(GENRES)].encode(), int(duration))


def _fraction(*numbers: int) -> float:
    """From 0 to below 1, the same for the same numbers."""
    return zlib.crc32(repr(numbers).encode()) / 2**32


def name(topic: str, identifier: int, text: str) -> Name:
    """The name of an artist, album or track. Raises `OverflowError` for an id beyond 64 bits."""
    value = json.dumps({"id": identifier, "name": text}, ensure_ascii=False, separators=(",", ":"))
    return topic, LONG.encode(identifier), value.encode()
