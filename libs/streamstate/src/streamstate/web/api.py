"""The API of a service: a Flask application over the state, built from the contract alone."""

from collections.abc import Callable
from typing import Any

from apiflask import APIFlask
from flask import Response

from streamstate.app import App, View
from streamstate.kafka import Topics
from streamstate.naming import renamed
from streamstate.redis_store import RedisStore, connect
from streamstate.settings import ApiSettings
from streamstate.state import Store
from streamstate.web import openapi
from streamstate.web.answers import Answers, json, require_ready
from streamstate.web.client import Instances
from streamstate.web.freshness import Freshness
from streamstate.web.process import application
from streamstate.web.processors import PATH, ViewEntry, entries, entry, processors
from streamstate.web.telemetry import PartitionCollector, Telemetry

THREADS = 16


def create_api(app: App, settings: ApiSettings) -> APIFlask:
    """The application of `app`. Redis is connected to by the first request."""
    app = renamed(app, settings.name, settings.topics)
    store = RedisStore(connect(settings.redis, settings.redis_timeout_s), app.name)
    topics = Topics(settings.kafka, security=settings.security)
    freshness = Freshness(topics, app.topics)
    freshness.start()
    return build(app, settings, store, topics, freshness)


def build(app: App, settings: ApiSettings, store: Store, topics: Topics, freshness: Freshness) -> APIFlask:
    """The same over any store."""

    def ready() -> None:
        for partition, snapshot in store.read({p: [] for p in range(topics.widest(app.topics))}).items():
            if snapshot.owner in (None, settings.advertise):
                require_ready(partition, snapshot)

    flask, telemetry = skeleton(app, settings, store, topics, views=entries(app), ready=ready)
    answers = Answers(app, settings, store, topics, freshness, Instances(THREADS), telemetry)
    for view in app.views:
        _add_view(flask, answers, view)
    flask.add_url_rule(openapi.MANY, view_func=flask.doc(**openapi.of_many())(answers.many))
    parameters = {view.path: openapi.view_parameters(view) for view in app.views}
    parameters[openapi.MANY] = openapi.many_parameters(app.views)
    openapi.describe(flask, [view.answers for view in app.views], parameters)
    return flask


def skeleton(
    app: App,
    settings: ApiSettings,
    store: Store,
    topics: Topics,
    *,
    views: list[ViewEntry],
    ready: Callable[[], None],
    alive: Callable[[], None] = lambda: None,
) -> tuple[APIFlask, Telemetry]:
    """What the API of every service has, whatever it answers: `/processors` with these `views`, metrics of its state.

    `ready` and `alive` raise a `Problem` when the instance is not.
    """
    means = "The instance has all that it answers from"
    flask, telemetry = application(app.name, settings, settings.advertise, ready=ready, readiness=means, alive=alive)
    telemetry.registry.register(PartitionCollector(app, store, topics))

    def owners() -> Response:
        return json(processors(app, store, topics, views), settings.advertise)

    for path in (PATH, entry(app).path):
        document = flask.doc(**openapi.of_process("Who owns which partition, and which views are answered"))
        flask.add_url_rule(path, path, document(owners))
    return flask, telemetry


def _add_view(flask: APIFlask, answers: Answers, view: View[Any]) -> None:
    def answer(key: str = "") -> Response:
        return answers.all(view, key) if view.topic is None else answers.one(view, key)

    document = openapi.of_route(view.name, view.summary, view.answers)
    flask.add_url_rule(view.path, view.name, flask.doc(**document)(answer))
