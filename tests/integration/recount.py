"""The right answers, counted from the topics themselves by the simplest code there is, none of it the services'."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Message, murmur2

FIELDS = ("userId", "artistId", "albumId", "trackId", "timestamp")
PARTITIONS = 8
YEAR_9999_MS = 253_402_300_799_999


def usable(message: Message) -> dict[str, int] | None:
    """The event in `message`, None when it is broken."""
    key, value = message.key(), message.value()
    if not isinstance(key, bytes) or not isinstance(value, bytes) or len(key) != 8:
        return None
    try:
        event = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or any(type(event.get(name)) is not int for name in FIELDS):
        return None
    if any(not 0 <= event[name] < 2**63 for name in FIELDS) or event["timestamp"] > YEAR_9999_MS:
        return None
    return event if event["userId"] == int.from_bytes(key, "big", signed=True) else None


def names(messages: Iterable[Message]) -> dict[int, str]:
    found: dict[int, str] = {}
    for message in messages:
        key = int.from_bytes(message.key() or b"", "big")
        value = message.value()
        if value is None:
            found.pop(key, None)
        else:
            found[key] = json.loads(value)["name"]
    return found


def profiles(messages: Iterable[Message], known: dict[str, dict[int, str]]) -> dict[int, dict[str, Any]]:
    """What `/v1/users/{id}` should say, by user; an event that lies elsewhere than its key belongs is not found there.

    `known` are the names by kind.
    """
    plays: defaultdict[int, list[dict[str, int]]] = defaultdict(list)
    for message in messages:
        event = usable(message)
        if event is not None and murmur2(message.key() or b"", PARTITIONS) == message.partition():
            plays[event["userId"]].append(event)
    return {user: _profile(user, events, known) for user, events in plays.items()}


def _profile(user: int, events: list[dict[str, int]], known: dict[str, dict[int, str]]) -> dict[str, Any]:
    times = [event["timestamp"] for event in events]
    profile: dict[str, Any] = {
        "userId": user,
        "eventCount": len(events),
        "firstListeningEvent": _instant(min(times)),
        "lastListeningEvent": _instant(max(times)),
    }
    for chart, field, kind in (
        ("topTenArtists", "artistId", "artists"),
        ("topTenAlbums", "albumId", "albums"),
        ("topTenTracks", "trackId", "tracks"),
    ):
        counts = Counter(event[field] for event in events)
        top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:10]
        profile[chart] = [{"id": i, "name": known[kind].get(i), "countPlays": n} for i, n in top]
    return profile


def _instant(ms: int) -> str:
    whole = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ms % 1000:03d}Z" if ms % 1000 else f"{whole}Z"
