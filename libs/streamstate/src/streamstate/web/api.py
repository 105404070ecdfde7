"""The API of a service: a Flask application over the state, built from the contract alone."""

from typing import Any

from apiflask import APIFlask
from flask import Response

from streamstate.app import App, View
from streamstate.kafka import Topics
from streamstate.naming import renamed
from streamstate.redis_store import RedisStore, connect
from streamstate.settings import ApiSettings
from streamstate.state import Store
from streamstate.web import openapi, problems
from streamstate.web.answers import Answers, json, require_ready
from streamstate.web.client import Instances
from streamstate.web.processors import processors
from streamstate.web.telemetry import PartitionCollector, Telemetry

THREADS = 16


def create_api(app: App, settings: ApiSettings) -> APIFlask:
    """The application of `app`. Redis and Kafka are connected to by the first request."""
    app = renamed(app, settings.name, settings.topics)
    store = RedisStore(connect(settings.redis, settings.redis_timeout_s), app.name)
    return build(app, settings, store, Topics(settings.kafka, security=settings.security))


def build(app: App, settings: ApiSettings, store: Store, topics: Topics) -> APIFlask:
    """The same over any store."""
    telemetry = Telemetry(app.name)
    telemetry.registry.register(PartitionCollector(app, store, topics))
    flask = openapi.application(app.name)
    problems.install(flask)
    telemetry.install(flask)
    answers = Answers(app, settings, store, topics, Instances(THREADS), telemetry)
    for view in app.views:
        _add_view(flask, answers, view)
    flask.add_url_rule(openapi.MANY, view_func=flask.doc(**openapi.of_many())(answers.many))
    parameters = {view.path: [openapi.key_parameter(view.key)] for view in app.views}
    parameters[openapi.MANY] = openapi.many_parameters(app.views)
    openapi.describe(flask, [view.answers for view in app.views], parameters)
    _add_status(flask, app, settings, store, topics)
    return flask


def _add_view(flask: APIFlask, answers: Answers, view: View[Any]) -> None:
    def answer(key: str) -> Response:
        return answers.one(view, key)

    flask.add_url_rule(view.path, view.name, flask.doc(**openapi.of_view(view))(answer))


def _add_status(flask: APIFlask, app: App, settings: ApiSettings, store: Store, topics: Topics) -> None:
    @flask.get("/processors")
    @flask.doc(summary="Who owns which partition, and which views are answered")
    def owners() -> Response:
        return json(processors(app, store, topics), settings.advertise)

    @flask.get("/livez")
    @flask.doc(summary="The process runs")
    def livez() -> Response:
        return json({"status": "alive"}, settings.advertise)

    @flask.get("/readyz")
    @flask.doc(summary="All partitions are owned, and those of this instance are complete")
    def readyz() -> Response:
        for partition, snapshot in store.read({p: [] for p in range(topics.widest(app.topics))}).items():
            if snapshot.owner in (None, settings.advertise):
                require_ready(partition, snapshot)
        return json({"status": "ready"}, settings.advertise)
