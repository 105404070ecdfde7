"""The state of every service after a fixed stream of records."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from random import Random
from typing import Any

from devkit import registry
from streamstate.app import App
from streamstate.keys import LONG
from streamstate.state.memory import MemoryStore
from streamstate.state.memory.bounds import Day
from streamstate.state.memory.timelines import Family
from streamstate.testing import Driver
from tests.raw import ByTopic, name_json

RECORDS = 200
BEGIN_MS = 1_767_225_600_000

Draw = Callable[[Random], tuple[bytes, bytes | None]]


def text(*values: str | None) -> Draw:
    """A user, and one of `values`; None is a tombstone."""

    def draw(random: Random) -> tuple[bytes, bytes | None]:
        value = random.choice(values)
        return random.choice([b"amy", b"bob", b"cat"]), None if value is None else value.encode()

    return draw


def play(random: Random) -> tuple[bytes, bytes]:
    user, artist, album, track = (random.randint(0, 5) for _ in range(4))
    ids = {"userId": user, "artistId": artist, "albumId": album, "trackId": track}
    further = {"device": random.choice(["phone", "tv", None]), "genre": "folk", "durationMs": random.randint(1, 60_000)}
    return LONG.encode(user), json.dumps(ids | {"timestamp": random.randint(0, BEGIN_MS)} | further).encode()


def name(random: Random) -> tuple[bytes, bytes | None]:
    key = random.randint(0, 5)
    return LONG.encode(key), random.choice([None, name_json(key, f"name {random.randint(0, 9)}")])


def change(random: Random) -> tuple[bytes, bytes]:
    return b"berlin", json.dumps({"item": random.choice(["tea", "cake"]), "quantity": random.randint(1, 3)}).encode()


def booking(random: Random) -> tuple[bytes, bytes]:
    return LONG.encode(random.randint(0, 5)), json.dumps({"amount": random.randint(-5, 5)}).encode()


DRAWN: Mapping[str, Draw] = {
    "listening-events": play,
    **dict.fromkeys(("artists", "albums", "tracks"), name),
    "user-clicks": text("1", "2", "3"),
    "user-regions": text("asia", "europe", None),
    "open": text("Open", "Close", "Closed", None),
    "tick": text(""),
    "bookings": booking,
    "lines": text("to be, or not to be", "Be!"),
    **dict.fromkeys(("restocked", "sold"), change),
    **dict.fromkeys(("orders", "payments"), text("1", "2")),
}
STREAMS = ByTopic("DRAWN of tests/released/states.py", '"TOPIC": text("{}")', DRAWN)


def state(app: App) -> str:
    """The digest of the state of `app` after its part of the stream."""
    random = Random(1)
    store = MemoryStore()
    driver = Driver(app, store)
    for offset in range(RECORDS):
        for topic in app.topics:
            time = BEGIN_MS + offset * 600_000 - random.randint(0, 900_000)
            driver.feed(0, {topic: [(offset, time, *STREAMS[topic](random))]})
    assert not driver.dead
    return sha256(json.dumps(canonical(store.keys(0)), sort_keys=True).encode()).hexdigest()


def canonical(value: Any) -> Any:
    """`value` as JSON, whatever the order of sets and maps."""
    if isinstance(value, Family):
        # The bounds follow from the entries.
        return {"timelines": sorted(value.timelines), "expired": value.expired}
    if is_dataclass(value):
        return {field.name: canonical(getattr(value, field.name)) for field in fields(value)}
    match value:
        case Day(lines, 0):
            return lines
        case dict():
            return {str(key): canonical(inner) for key, inner in value.items()}
        case set():
            return sorted(map(str, value))
        case bytes():
            return value.hex()
        case _:
            return value


def states() -> dict[str, dict[str, Any]]:
    """By service: the declarations of its folds, and its state."""
    apps = {service: registry.app(service) for service in registry.SERVICES}
    return {service: {"folds": dict(app.declarations), "state": state(app)} for service, app in apps.items()}
