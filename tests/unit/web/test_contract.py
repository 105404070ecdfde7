"""The API of every service against its document."""

from dataclasses import replace

import pytest

from devkit import registry
from services.topics.model import app as kept
from services.topics.settings import KeptSettings, KeptTopic
from streamstate.app import App
from streamstate.keys import INT, LONG, PAIR, UUID
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryReader, MemoryStore
from streamstate.testing import Driver
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from tests.contract import hold
from tests.raw import name_json, play_json
from tests.serving import FixedTopics, Loop

LONG_0, TEXT_0 = LONG.encode(0), b"0"
RECORDS = {
    "listening-events": (LONG_0, play_json((0, 0, 0, 0, 1_000))),
    "artists": (LONG_0, name_json(0, "Prince")),
    "albums": (LONG_0, name_json(0, "1999")),
    "tracks": (LONG_0, name_json(0, "Delirious")),
    "user-regions": (TEXT_0, b"0"),
    "user-clicks": (TEXT_0, b"3"),
    "open": (TEXT_0, b"Closed"),
    "tick": (TEXT_0, b""),
    "bookings": (LONG_0, b'{"amount": 3}'),
    "sizes": (INT.encode(0), b""),
    "carts": (UUID.encode("00000000-0000-0000-0000-000000000000"), b""),
    "stock": (PAIR.encode("0:0"), b""),
    "lines": (TEXT_0, b"0"),
    **dict.fromkeys(("restocked", "sold"), (TEXT_0, b'{"item": "0", "quantity": 3}')),
    **dict.fromkeys(("orders", "payments"), (TEXT_0, b"0")),
}
"""A record of each topic, for the key that is asked for most often."""


KEPT = KeptSettings(
    kept=tuple(
        KeptTopic.model_validate({"topic": topic, "key": key, "value": "text", "keys": True})
        for topic, key in (("sizes", "int"), ("carts", "uuid"), ("stock", "pair"))
    )
)
APPS = [*(app for app in map(registry.app, registry.SERVICES) if app.views), replace(kept(KEPT), name="ranges")]


@pytest.mark.parametrize("app", APPS, ids=lambda app: str(app.name))
def test_what_is_answered_is_what_the_document_says(app: App, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSTATE_DEADLINE_MS", "20")
    store, topics = MemoryStore(), FixedTopics(dict.fromkeys(app.topics, 1))
    driver = Driver(app, store)
    for fold in app.folds:
        driver.feed(0, {topic: [(0, 1_000, *RECORDS[topic])] for topic in fold.topics})
    settings = load(ApiSettings)
    store.claim(0, settings.advertise, {})
    hold(loop.wsgi(build(app, settings, MemoryReader(store), Freshness(topics, app.topics))))
