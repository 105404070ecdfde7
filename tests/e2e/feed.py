"""Known events and names: sent by a pod of the cluster, and counted here. Runs in an image of this project.

python feed.py TOPIC FIRST COUNT
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from services.events import KINDS, LISTENING_EVENTS
from streamstate.deployment.connections import KafkaSettings
from streamstate.kafka.producer import producer, send_all
from streamstate.keys import LONG
from streamstate.settings import load

USERS = 40
KEYS = range(1, 16)
"""Of artists, albums and tracks alike."""
START_MS = 1_700_000_000_000
FIELDS = ("artistId", "albumId", "trackId")


def event(number: int) -> dict[str, int]:
    ids = {field: number * number % (11 + 2 * at) + 1 for at, field in enumerate(FIELDS)}
    return {"userId": number % USERS + 1, **ids, "timestamp": START_MS + number * 1000}


def name(kind: str, key: int) -> str:
    return f"{kind} {key} ✓"


def profile(user: int, count: int) -> dict[str, Any]:
    """What is known of `user` after the first `count` events."""
    events = [played for played in map(event, range(count)) if played["userId"] == user]
    charts = {}
    for kind, field in zip(KINDS, FIELDS, strict=True):
        plays = Counter(played[field] for played in events)
        top = sorted(plays.items(), key=lambda item: (-item[1], item[0]))[:10]
        charts[f"topTen{kind.capitalize()}"] = [{"id": i, "name": name(kind, i), "countPlays": n} for i, n in top]
    first, last = events[0]["timestamp"], events[-1]["timestamp"]
    return {
        "userId": user,
        "eventCount": len(events),
        "firstListeningEvent": _instant(first),
        "lastListeningEvent": _instant(last),
        **charts,
    }


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _records(topic: str, numbers: range) -> Iterator[tuple[str, bytes, bytes, list[Any]]]:
    if topic == LISTENING_EVENTS:
        for kind in KINDS:
            for key in KEYS:
                yield kind, LONG.encode(key), json.dumps({"id": key, "name": name(kind, key)}).encode(), []
    for number in numbers:
        played = event(number)
        yield topic, LONG.encode(played["userId"]), json.dumps(played).encode(), []


if __name__ == "__main__":
    topic, first, count = sys.argv[1:]
    numbers = range(int(first), int(first) + int(count))
    settings = load(KafkaSettings)
    out = producer(settings.kafka, settings.security)
    print(send_all(out, _records(topic, numbers)), "records sent")
