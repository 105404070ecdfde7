"""The sample: a profile, and invented plays up to now, of the shape of the demo's."""

import json
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from random import Random

PROFILE, EVENTS = Path("evenings.yaml"), Path("events.ndjson")
NUMBER = 10_000
_USERS, _ARTISTS, _BROKEN = 200, 300, 4_000
_DAYS_MS = 45 * 86_400_000
_DEVICES = ("phone", "desktop", "speaker", "radio", "car", "tv")


def written() -> tuple[Path, Path]:
    """The profile and the events, written to the working directory where they are not there yet."""
    if not PROFILE.exists():
        PROFILE.write_text((resources.files(__package__) / PROFILE.name).read_text())
    if not EVENTS.exists():
        EVENTS.write_text("".join(lines(int(time.time() * 1000))))
    return PROFILE, EVENTS


def lines(now_ms: int) -> Iterator[str]:
    """`NUMBER` plays of the last 45 days, JSON lines, always the same apart from their times; a few are broken."""
    draw = Random(7)  # noqa: S311, nothing secret
    for number in range(1, NUMBER + 1):
        artist = int(draw.paretovariate(0.6) - 1) % _ARTISTS + 1
        play = {
            "userId": int(draw.paretovariate(0.8) - 1) % _USERS + 1,
            "artistId": artist if number % _BROKEN else "unknown",
            "timestamp": now_ms - _DAYS_MS + _DAYS_MS * number // NUMBER,
            "device": draw.choice(_DEVICES),
            "durationMs": draw.randrange(20_000, 300_000),
        }
        yield f"{json.dumps(play)}\n"
