"""The API of every service against its document."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest
import urllib3
import uvicorn

from devkit import registry
from devkit.servers.child_process import LOCALHOST
from services.topics.model import app as kept
from services.topics.settings import KeptSettings, KeptTopic
from streamstate.app import App
from streamstate.keys import INT, LONG, PAIR, UUID
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.testing import Driver, FixedTopics, MemoryReader
from streamstate.web.api import build
from streamstate.web.freshness import Freshness
from streamstate.web.server.asgi import Asgi
from strictasgi.server import Server
from tests.contract import hold
from tests.raw import ByTopic, feed_plays, name_json, play_json
from tests.serving import Loop
from tests.waiting import until

LONG_0, TEXT_0 = LONG.encode(0), b"0"
ENTRIES = {
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
RECORDS = ByTopic("ENTRIES of tests/unit/web/test_contract.py", '"TOPIC": (TEXT_0, b"{}")', ENTRIES)
"""A record of each topic, for the key that is asked for most often."""


KEPT = KeptSettings(
    kept=tuple(
        KeptTopic.model_validate({"topic": topic, "key": key, "value": "text", "keys": True})
        for topic, key in (("sizes", "int"), ("carts", "uuid"), ("stock", "pair"))
    )
)
APPS = [*(app for app in map(registry.app, registry.SERVICES) if app.views), replace(kept(KEPT), name="ranges")]


@pytest.mark.parametrize("app", APPS, ids=lambda app: str(app.name))
def test_what_is_answered_is_what_the_document_says(app: App, loop: Loop) -> None:
    store, topics = MemoryStore(), FixedTopics(dict.fromkeys(app.topics, 1))
    driver = Driver(app, store)
    for fold in app.folds:
        driver.feed(0, {topic: [(0, 1_000, *RECORDS[topic])] for topic in fold.topics})
    patient = load(ApiSettings)
    hasty = patient.model_copy(update={"deadline_ms": 20})
    store.claim(0, patient.advertise, {})
    reads, freshness = MemoryReader(store), Freshness(topics, app.topics)
    hold(*(loop.wsgi(build(app, settings, reads, freshness)) for settings in (hasty, patient)))


# The application of a service is a plain ASGI application: uvicorn gives the same answers as the library's server.

USER = "/v1/users/7/metrics"
PATHS = [USER, f"{USER}?x=1", "/v1/users/8/metrics", "/v1/users/x/metrics", "/none", "/livez", "/openapi.json", "/docs"]
OWN = {"date", "server", "x-request-id", "state-age-ms", "transfer-encoding", "content-length"}
"""The headers that differ between two servers, or two answers of one."""


def metrics() -> Asgi:
    """The application of the service metrics, in whose state user 7 has a play."""
    app, store, settings = registry.app("metrics"), MemoryStore(), load(ApiSettings)
    topics = FixedTopics(dict.fromkeys(app.topics, 1))
    store.claim(0, settings.advertise, {})
    feed_plays(Driver(app, store), [(7, 1, 2, 3, 1_000)])
    return build(app, settings, MemoryReader(store), Freshness(topics, app.topics))


@contextmanager
def strictasgi(loop: Loop, listening: socket.socket) -> Iterator[None]:
    async def start() -> Server:
        server = Server(metrics())
        await server.start()
        server.listen(listening)
        return server

    server = loop.run(start())
    yield
    loop.run(server.stop(5))


@contextmanager
def others(loop: Loop, listening: socket.socket) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(metrics(), log_level="error"))

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(server.serve([listening]))

    async def end(serving: asyncio.Task[None]) -> None:
        await serving

    serving = loop.run(start())
    until(lambda: server.started)
    yield
    server.should_exit = True
    loop.run(end(serving))


Answers = dict[str, tuple[int, bytes, dict[str, str]]]


def answers(loop: Loop, serve: Callable[[Loop, socket.socket], AbstractContextManager[None]]) -> Answers:
    """Status, body and headers for each of `PATHS`."""
    listening = socket.create_server((LOCALHOST, 0))
    host, port = listening.getsockname()
    found = {}
    with serve(loop, listening), urllib3.HTTPConnectionPool(host, port) as pool:
        for path in PATHS:
            answer = pool.request("GET", path, headers={"Host": "here"})
            headers = {name.lower(): text for name, text in answer.headers.items()}
            found[path] = answer.status, answer.data, {name: headers[name] for name in headers.keys() - OWN}
    return found


def test_uvicorn_gives_the_same_answers(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSTATE_ADVERTISE", "here:1")
    ours = answers(loop, strictasgi)
    assert ours == answers(loop, others)
    assert [ours[path][0] for path in PATHS] == [200, 400, 404, 400, 404, 200, 200, 200]
