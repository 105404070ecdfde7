"""A recommender over HTTP, with a store of its own."""

from dataclasses import dataclass
from typing import Any

from werkzeug.test import Client

from services.recommendations.api import Pool, build
from services.recommendations.control import exclusions
from services.recommendations.control.exclusions import Rules
from services.recommendations.graph.live import Live
from services.recommendations.model import app
from services.recommendations.settings import ListSettings, PoolSettings, WindowSettings
from streamstate.app import App
from streamstate.settings import ApiSettings, load
from streamstate.state.memory import MemoryStore
from streamstate.testing import FixedTopics, MemoryReader
from streamstate.web.freshness import Freshness
from tests.raw import Play
from tests.serving import Loop, Wsgi
from tests.unit.recommendations.following import PARTITIONS, WINDOW

ME, STRANGER = 1, 4711
# User 1 shares artist 7 with users 2 and 3, who also play 8 (both of them) and 9.
PLAYS: list[Play] = [
    (1, 7, 17, 27, 0), (2, 7, 17, 27, 0), (2, 8, 18, 28, 0), (3, 7, 17, 27, 0), (3, 8, 18, 28, 0), (3, 9, 19, 29, 0),
]  # fmt: skip


@dataclass
class Recommender:
    store: MemoryStore
    live: Live
    client: Client
    wsgi: Wsgi
    rules: Rules | None = None

    def get(self, path: str, status: int = 200) -> Any:
        response = self.client.get(f"/v1/users/{path}")
        assert response.status_code == status
        return response.get_json(force=True)

    def follow(self) -> None:
        while self.live.step():
            pass
        if self.rules:
            self.rules.step()


def served(loop: Loop, of: App | None = None, *, stable_s: int = 0, shown_age_s: int = 0) -> Recommender:
    """A recommender with a store of its own; its lists are new draws without `stable_s`."""
    store, of = MemoryStore(), of or app(load(WindowSettings))
    topics = FixedTopics(dict.fromkeys(of.topics, PARTITIONS))
    live, freshness = Live(store, WINDOW), Freshness(topics, of.topics)
    parts = load(ApiSettings), MemoryReader(store), freshness, live, Pool(load(PoolSettings))
    followed = exclusions.rules(of, store)
    settings = ListSettings.model_construct(stable_s=stable_s, shown_age_s=shown_age_s)
    wsgi = loop.wsgi(build(of, *parts, lists=settings, rules=followed))
    return Recommender(store, live, Client(wsgi), wsgi, followed)
