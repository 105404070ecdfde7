"""The API deployment of recommendations: answers from the graph in memory, any instance for any user."""

from apiflask import APIFlask
from msgspec.structs import asdict

from services.events import KINDS
from services.recommendations.answers import (
    ALL_KINDS,
    VIAS,
    Parameters,
    Recommendations,
    Recommended,
    Via,
    path,
    view,
)
from services.recommendations.graph import Graph
from services.recommendations.graph_metrics import GraphCollector
from services.recommendations.live import Live
from services.recommendations.model import APP
from services.recommendations.pool import Pool
from services.recommendations.salsa import Recommendation, recommend
from services.recommendations.settings import PoolSettings, WindowSettings
from streamstate.app import App
from streamstate.deployment.overrides import renamed
from streamstate.kafka.admin import Topics
from streamstate.keys import LONG
from streamstate.settings import ApiSettings, load
from streamstate.state.redis import RedisStore, connect
from streamstate.state.redis_reader import RedisReader, open_commands
from streamstate.state.store import AsyncReads
from streamstate.web.api import skeleton
from streamstate.web.consistency import Demands
from streamstate.web.freshness import Freshness, Positions
from streamstate.web.http import parameters
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.request import Request, Response, json
from streamstate.web.partition_map import ViewEntry
from streamstate.web.server import openapi
from streamstate.web.server.asgi import Asgi
from streamstate.web.state import State

WALKING = 0.8
"""The share of the time left that may be walked; the rest is for ranking and for the way back."""

DEFAULTS = Parameters()


def create() -> Asgi:
    """For gunicorn: `services.recommendations.api:create()`."""
    settings = load(ApiSettings)
    app = renamed(APP, settings.name, settings.topics)
    store = RedisStore(connect(settings.redis, settings.redis_timeout_s), app.name)
    reads = RedisReader(open_commands(settings.redis, settings.redis_timeout_s), app.name)
    topics = Topics(settings.kafka, security=settings.security)
    live = Live(store, load(WindowSettings).window, *app.topics)
    return build(app, settings, reads, Freshness(topics, app.topics), live, Pool(load(PoolSettings)))


def build(app: App, settings: ApiSettings, reads: AsyncReads, freshness: Freshness, live: Live, pool: Pool) -> Asgi:
    """The application over these parts; what runs in the background begins with the server."""
    paths = {kind: path(kind) for kind in KINDS}
    views = [ViewEntry(view(kind), at, live.topic, LONG.name, anywhere=True) for kind, at in paths.items()]
    state = State(app, reads, freshness, settings.truncated_topics)

    async def ready() -> None:
        live.require_alive()
        live.graph()

    flask, telemetry = skeleton(app, settings, state, freshness, views=views, ready=ready, alive=live.require_alive)
    telemetry.further(GraphCollector(live, state).collect)
    answers = _Answers(settings, freshness, live, pool)
    for kind in KINDS:
        _add_kind(flask, answers, kind)
    openapi.route(flask, ALL_KINDS, "all", answers.all, hide=True)
    parameters = [openapi.key_parameter(LONG), *openapi.query_parameters(Parameters)]
    openapi.describe(flask, [Recommendations], dict.fromkeys(paths.values(), parameters))
    return Asgi(flask, settings, telemetry, starting=[freshness.start, live.start], ending=[pool.close, reads.close])


class _Answers:
    """What the routes answer."""

    def __init__(self, settings: ApiSettings, freshness: Freshness, live: Live, pool: Pool) -> None:
        self._settings = settings
        self._freshness = freshness
        self._live = live
        self._pool = pool
        self._demands = Demands(freshness, self._positions, settings)

    async def one(self, kind: str, request: Request, key: str) -> Response:
        """What is recommended of one kind."""
        asked = parameters.parse(Parameters, request.query)
        asked.check()
        user = LONG.parse(key)
        graph = await self._graph(request.deadline)
        found = await self._pool.run(lambda: _recommended(graph, kind, user, asked, request.deadline))
        return self._told(found)

    async def all(self, request: Request, key: str) -> Response:
        """The same of all kinds, with the defaults of all parameters."""
        user = LONG.parse(key)
        graph = await self._graph(request.deadline)
        return self._told(
            await self._pool.run(
                lambda: {kind: _recommended(graph, kind, user, DEFAULTS, request.deadline) for kind in KINDS}
            )
        )

    async def _graph(self, deadline: Deadline) -> Graph:
        async def graph() -> Graph:
            return self._live.graph()

        return await self._demands.met(graph, lambda _: self._now(), deadline)

    def _told(self, found: object) -> Response:
        return json(found, self._settings.advertise, self._freshness.headers(self._now()))

    def _now(self) -> Positions:
        return {(self._live.topic, partition): offset for partition, offset in self._live.positions.items()}

    async def _positions(self) -> Positions:
        return self._now()


def _recommended(graph: Graph, kind: str, user: int, asked: Parameters, deadline: Deadline) -> Recommendations:
    found = recommend(graph.view(kind), user, budget_s=WALKING * deadline.left, **asdict(asked))
    return _answer(user, found)


def _add_kind(flask: APIFlask, answers: _Answers, kind: str) -> None:
    async def recommendations(request: Request, key: str) -> Response:
        return await answers.one(kind, request, key)

    summary = f"{kind.capitalize()} that a user may like and does not know"
    document = openapi.of_route(view(kind), summary, Recommendations)
    openapi.route(flask, path(kind), view(kind), recommendations, **document)


def _answer(user: int, found: Recommendation) -> Recommendations:
    through = {item: [Via(*via) for via in vias[:VIAS]] for item, vias in found.explanations.items()}
    items = [Recommended(item, score, through.get(item)) for item, score in found.items]
    return Recommendations(user, items, found.walks, found.partial, "popular" if found.fallback else None)
