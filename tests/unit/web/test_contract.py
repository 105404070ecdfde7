"""The API of every service against its document."""

import pytest

from services.clicks import model as clicks
from services.metrics import model as metrics
from services.names import model as names
from services.notifications import model as notifications
from services.notifications.settings import GraceSettings
from services.topics import model as kept
from services.topics.settings import KeptSettings
from streamstate.app import App
from streamstate.keys import LONG
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore, Reader
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
}
"""A record of each topic, for the key that is asked for most often."""


APPS = (clicks.APP, metrics.APP, names.APP, notifications.app(load(GraceSettings)), kept.app(load(KeptSettings)))


@pytest.mark.parametrize("app", APPS, ids=lambda app: str(app.name))
def test_what_is_answered_is_what_the_document_says(app: App, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSTATE_DEADLINE_MS", "20")
    store, topics = MemoryStore(), FixedTopics(dict.fromkeys(app.topics, 1))
    driver = Driver(app, store)
    for fold in app.folds:
        driver.feed(0, {topic: [(0, 1_000, *RECORDS[topic])] for topic in fold.topics})
    settings = load(ApiSettings)
    store.claim(0, settings.advertise, {})
    hold(loop.wsgi(build(app, settings, Reader(store), Freshness(topics, app.topics))))
