"""The API deployment of recommendations: answers from the graph in memory, any instance for any user."""

from apiflask import APIFlask
from flask import Response
from msgspec.structs import asdict

from services.events import KINDS
from services.recommendations.answers import VIAS, Parameters, Recommendations, Recommended, Via, path, view
from services.recommendations.live import Live
from services.recommendations.model import APP
from services.recommendations.salsa import Recommendation, recommend
from services.recommendations.settings import WindowSettings
from services.recommendations.telemetry import GraphCollector
from streamstate.app import App
from streamstate.kafka import Topics
from streamstate.keys import LONG
from streamstate.naming import renamed
from streamstate.redis_store import RedisStore, connect
from streamstate.settings import ApiSettings, load
from streamstate.state import Store
from streamstate.web import openapi, query
from streamstate.web.answers import json
from streamstate.web.api import skeleton
from streamstate.web.deadline import Deadline
from streamstate.web.freshness import Freshness, Positions
from streamstate.web.processors import ViewEntry

WALKING = 0.8
"""The share of the time left that may be walked; the rest is for ranking and for the way back."""


def create() -> APIFlask:
    """For gunicorn: `services.recommendations.api:create()`."""
    settings = load(ApiSettings)
    app = renamed(APP, settings.name, settings.topics)
    store = RedisStore(connect(settings.redis, settings.redis_timeout_s), app.name)
    topics = Topics(settings.kafka, security=settings.security)
    live = Live(store, topics, load(WindowSettings).window, *app.topics)
    live.start()
    freshness = Freshness(topics, app.topics)
    freshness.start()
    return build(app, settings, store, topics, freshness, live)


def build(app: App, settings: ApiSettings, store: Store, topics: Topics, freshness: Freshness, live: Live) -> APIFlask:
    """The application over these parts."""
    paths = {kind: path(kind) for kind in KINDS}
    views = [ViewEntry(view(kind), at, live.topic, LONG.name, anywhere=True) for kind, at in paths.items()]
    flask, telemetry = skeleton(
        app, settings, store, topics, views=views, ready=lambda: _require(live), alive=live.require_alive
    )
    telemetry.registry.register(GraphCollector(live, store))
    for kind in KINDS:
        _add_kind(flask, settings, freshness, live, kind)
    parameters = [openapi.key_parameter(LONG), *openapi.query_parameters(Parameters)]
    openapi.describe(flask, [Recommendations], dict.fromkeys(paths.values(), parameters))
    return flask


def _require(live: Live) -> None:
    live.require_alive()
    live.graph()


def _add_kind(flask: APIFlask, settings: ApiSettings, freshness: Freshness, live: Live, kind: str) -> None:
    def positions(_graph: object) -> Positions:
        return {(live.topic, partition): offset for partition, offset in live.positions.items()}

    def answer(key: str) -> Response:
        deadline = Deadline.of_request(settings.deadline_ms)
        user, asked = LONG.parse(key), query.parse(Parameters)
        asked.check()
        graph = freshness.demanded(live.graph, positions, deadline)
        found = recommend(graph.view(kind), user, budget_s=WALKING * deadline.left, **asdict(asked))
        return json(_told(user, found), settings.advertise, freshness.headers(positions(graph)))

    document = openapi.of_route(
        view(kind), f"{kind.capitalize()} that a user may like and does not know", Recommendations
    )
    flask.add_url_rule(path(kind), view(kind), flask.doc(**document)(answer))


def _told(user: int, found: Recommendation) -> Recommendations:
    through = {item: [Via(*via) for via in vias[:VIAS]] for item, vias in found.explanations.items()}
    items = [Recommended(item, score, through.get(item)) for item, score in found.items]
    return Recommendations(user, items, found.walks, found.partial, "popular" if found.fallback else None)
