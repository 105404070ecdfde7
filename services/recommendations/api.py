"""The API deployment of recommendations: answers from the graph in memory, any instance for any user."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import asdict

from services.events import KINDS
from services.recommendations import graph_metrics
from services.recommendations.answers import (
    ALL_KINDS,
    ALL_RECOMMENDATIONS,
    RECOMMENDATIONS,
    VIAS,
    AllParameters,
    AllRecommendations,
    Parameters,
    Recommendations,
    RecommendedItem,
    Via,
    entries,
    path,
    view,
)
from services.recommendations.graph import Graph
from services.recommendations.live import Live
from services.recommendations.salsa import recommend
from services.recommendations.settings import PoolSettings, WindowSettings
from streamstate import bootstrap
from streamstate.app import App
from streamstate.deployment.resources import cores
from streamstate.erasure.topic import DeletionTopic
from streamstate.keys import LONG
from streamstate.settings import ApiSettings, load
from streamstate.state.store import AsyncReads, Positions
from streamstate.web.api import skeleton
from streamstate.web.consistency import Demands
from streamstate.web.freshness import Freshness
from streamstate.web.http import parameters
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.problems import overloaded
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.parameters import of_struct
from streamstate.web.server.responses import Answer
from streamstate.web.state import AppState
from streamstate.web.user_data import UserData

WALKING = 0.8
"""The share of the remaining time for walks; the rest is for ranking and the response."""


T = TypeVar("T")


class Pool:
    """Runs functions that take milliseconds of CPU without the interpreter's lock. For a single event loop."""

    def __init__(self, settings: PoolSettings) -> None:
        threads = settings.walkers or cores()
        self._most = threads + settings.walks_waiting
        self._threads = ThreadPoolExecutor(threads, "walker")
        self._taken = 0

    async def run(self, walk: Callable[[], T]) -> T:
        """The result of `walk`, called in a thread; raises a 503 `Problem` at once when the queue is full."""
        if self._taken >= self._most:
            raise overloaded(wanted="walks")
        self._taken += 1
        walking = asyncio.get_running_loop().run_in_executor(self._threads, walk)
        # A cancelled walk occupies its thread until the end.
        walking.add_done_callback(self._leave)
        return await asyncio.shield(walking)

    async def close(self) -> None:
        """Refuse further walks, and drop waiting walks."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _leave(self, walking: "asyncio.Future[T]") -> None:
        self._taken -= 1
        if not walking.cancelled():
            # Where the caller is gone, nobody else takes its error.
            walking.exception()


def create() -> Asgi:
    """The application with the settings of the process. Raises `Misconfigured` for an invalid setting."""
    settings = bootstrap.configure(ApiSettings)
    app = bootstrap.app("services.recommendations", settings)
    window, pool = load(WindowSettings).window, Pool(load(PoolSettings))
    store = bootstrap.store(settings.redis, settings.redis_timeout_s, app.name, settings.redis_login)
    live = Live(store, window, *app.topics)
    topics = bootstrap.topics(settings.kafka, settings.security)
    freshness, deletions = Freshness(topics, app.topics), bootstrap.deletions(settings, topics)
    return build(app, settings, bootstrap.reads(settings, app), freshness, live, pool, deletions)


def build(
    app: App,
    settings: ApiSettings,
    reads: AsyncReads,
    freshness: Freshness,
    live: Live,
    pool: Pool,
    deletions: DeletionTopic | None = None,
) -> Asgi:
    """The application over these parts; background threads start with the server."""
    views = entries(live.topic)
    state = AppState(app, reads, freshness, settings.truncated_topics, bootstrap.commands(app))

    async def ready() -> None:
        live.graph()

    routes, telemetry = skeleton(app, settings, state, freshness, views, ready)
    telemetry.further(partial(graph_metrics.collect, live, state))
    UserData(app, state, settings.advertise, deletions, live.played).add_to(routes)
    answers = _Answers(settings, freshness, live, pool)
    query, one_kind = of_struct(Parameters), Answer.of_state(RECOMMENDATIONS)
    for kind in KINDS:
        summary = f"{kind.capitalize()} that a user may like and did not play lately"
        routes.add(path(kind), view(kind), partial(answers.recommend, kind), summary, one_kind, LONG, query)
    summary = "Artists, albums and tracks that a user may like and did not play lately"
    query = of_struct(AllParameters)
    routes.add(ALL_KINDS, "recommendations", answers.all, summary, Answer.of_state(ALL_RECOMMENDATIONS), LONG, query)
    return Asgi(routes, settings, telemetry, starting=[freshness.start, live.start], ending=[pool.close, reads.close])


class _Answers:
    """The answers of the routes."""

    def __init__(self, settings: ApiSettings, freshness: Freshness, live: Live, pool: Pool) -> None:
        self._settings = settings
        self._freshness = freshness
        self._live = live
        self._pool = pool
        self._demands = Demands(freshness, self._positions, settings)

    async def recommend(self, kind: str, request: Request, key: str) -> Response:
        """The recommendations of a kind."""
        asked = parameters.parse(Parameters, request.query)
        asked.check()
        user = LONG.parse(key)
        graph = await self._graph(request.deadline)
        return self._answer(await self._pool.run(lambda: _recommended(graph, kind, user, asked, request.deadline)))

    async def all(self, request: Request, key: str) -> Response:
        """The same of all kinds, with the defaults of all other parameters."""
        asked = Parameters(explain=parameters.parse(AllParameters, request.query).explain)
        user = LONG.parse(key)
        graph = await self._graph(request.deadline)
        by_kind = await self._pool.run(
            lambda: {kind: _recommended(graph, kind, user, asked, request.deadline) for kind in KINDS}
        )
        return self._answer(AllRecommendations.from_kinds(user, by_kind))

    async def _graph(self, deadline: Deadline) -> Graph:
        async def graph() -> Graph:
            return self._live.graph()

        return await self._demands.met(graph, lambda _: self._now(), deadline)

    def _answer(self, answer: object) -> Response:
        return json(answer, self._settings.advertise, self._freshness.headers(self._now()))

    def _now(self) -> Positions:
        return {(self._live.topic, partition): offset for partition, offset in self._live.positions.items()}

    async def _positions(self) -> Positions:
        return self._now()


def _recommended(graph: Graph, kind: str, user: int, asked: Parameters, deadline: Deadline) -> Recommendations:
    result = recommend(graph.view(kind), user, budget_s=WALKING * deadline.left, **asdict(asked))
    through = {item: [Via(*via) for via in vias[:VIAS]] for item, vias in result.explanations.items()}
    items = [RecommendedItem(item, score, through.get(item, UNSET)) for item, score in result.items]
    return Recommendations(user, items, result.walks, result.partial, "popular" if result.fallback else None)
