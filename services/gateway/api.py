"""The gateway: one address for all services."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any

from apiflask import APIFlask
from flask import Response, request

from services.events import KINDS
from services.gateway import documents
from services.gateway.names import Names
from services.gateway.owners import Owners
from services.gateway.profile import UserMetrics, UserProfile
from services.gateway.recommended import NamedRecommendations
from services.gateway.route import Route, route
from services.gateway.router import Router
from services.gateway.users import Users
from services.recommendations.answers import Parameters, path, view
from streamstate.kafka import Topics
from streamstate.keys import LONG
from streamstate.settings import GatewaySettings, load
from streamstate.web import openapi
from streamstate.web.answers import asked_for_many, json, relay
from streamstate.web.api import THREADS
from streamstate.web.client import Instances
from streamstate.web.deadline import Deadline
from streamstate.web.problems import not_ready
from streamstate.web.process import application

NAME = "gateway"
ROUTE = "/v1/route/<service>/<key>"


def create() -> APIFlask:
    """For gunicorn: `services.gateway.api:create()`."""
    settings = load(GatewaySettings)
    client = Instances(THREADS)
    owners = Owners(_addresses(settings), client, settings.owners_ttl_s, settings.deadline_ms / 1000)
    owners.start()
    executor = ThreadPoolExecutor(2 * THREADS, NAME)
    topics = Topics(settings.kafka, security=settings.security)
    return build(settings, owners, topics, Router(owners, topics, client, executor), executor)


def _addresses(settings: GatewaySettings) -> Mapping[str, Sequence[str]]:
    """The instances of each service: as Kubernetes sees them, or a fixed list."""
    if not settings.services:
        return {service: given.split(",") for service, given in settings.instances.items()}
    # Kubernetes' client takes a second to import, and 30 MB.
    from services.gateway.endpoints import Endpoints, KubernetesSlices  # noqa: PLC0415

    endpoints = Endpoints(settings.services, KubernetesSlices(settings.namespace, settings.services.values()))
    endpoints.start()
    return endpoints


def build(settings: GatewaySettings, owners: Owners, topics: Topics, router: Router, executor: Executor) -> APIFlask:
    """The application over these parts."""

    def ready() -> None:
        if missing := owners.missing():
            raise not_ready(f"no instance answers of: {', '.join(missing)}")

    flask, _ = application(NAME, settings, NAME, ready=ready, readiness="The instances of every service are known")
    names = Names(router, settings.names_ttl_s, settings.names_cached)
    _add_users(flask, Users(owners, router, names, executor, settings.deadline_ms))
    _add_views(flask, settings, owners, router)
    _add_many(flask, settings, owners, router)
    _add_route(flask, owners, topics)
    key = openapi.key_parameter(LONG)
    parameters = {"/v1/users/<key>": [key], "/v1/users/<key>/metrics": [key]}
    service = {"in": "path", "name": "service", "required": True, "schema": {"type": "string"}}
    parameters[ROUTE] = [service, {"in": "path", "name": "key", "required": True, "schema": {"type": "string"}}]
    parameters |= {path(kind): [key, *openapi.query_parameters(Parameters)] for kind in KINDS}

    @flask.before_request
    def forget_document() -> None:
        # APIFlask keeps its first document, but services may come later.
        if request.path == documents.SPEC:
            flask._spec = None

    shapes = [UserProfile, UserMetrics, NamedRecommendations, Route]
    openapi.describe(flask, shapes, parameters, partial(documents.merge, owners=owners))
    return flask


def _add_users(flask: APIFlask, users: Users) -> None:
    document = openapi.of_route("user", "All that is known of a user, with names", UserProfile)
    flask.add_url_rule("/v1/users/<key>", "user", flask.doc(**document)(users.profile))
    document = openapi.of_route("metrics", "The plays of a user in numbers, with names", UserMetrics)
    flask.add_url_rule("/v1/users/<key>/metrics", "metrics", flask.doc(**document)(users.metrics))
    for kind in KINDS:
        summary = f"{kind.capitalize()} that a user may like and does not know, with names"
        document = openapi.of_route(view(kind), summary, NamedRecommendations)
        answer = flask.doc(**document)(_of_kind(users, kind))
        flask.add_url_rule(path(kind), view(kind), answer)


def _of_kind(users: Users, kind: str) -> Callable[[str], Response]:
    def recommendations(key: str) -> Response:
        return users.recommendations(kind, key)

    return recommendations


def _add_views(flask: APIFlask, settings: GatewaySettings, owners: Owners, router: Router) -> None:
    @flask.get("/v1/<path:rest>")
    @flask.doc(hide=True)
    def view(rest: str) -> Response:
        """Any path that a service answers, sent to the owner of the key in it."""
        deadline = Deadline.of_request(settings.deadline_ms)
        service, found, text = owners.find(f"/v1/{rest}")
        return relay(router.one(service, found, text, list(request.args.items(multi=True)), deadline))


def _add_many(flask: APIFlask, settings: GatewaySettings, owners: Owners, router: Router) -> None:
    @flask.get(openapi.MANY)
    @flask.doc(**openapi.of_many())
    def many() -> Response:
        """Many keys of any views: each service is asked for its own."""
        deadline = Deadline.of_request(settings.deadline_ms)
        answers: dict[str, dict[str, Any]] = {name: {} for name in request.args}
        for service, asked in owners.by_service(asked_for_many(owners.views())).items():
            for (name, text), found in router.many(service, asked, deadline).items():
                answers[name][text] = found
        return json(answers, NAME)


def _add_route(flask: APIFlask, owners: Owners, topics: Topics) -> None:
    document = openapi.of_route("route", "Which instance answers for a key of a service, and why", Route)

    @flask.get(ROUTE)
    @flask.doc(**document)
    def explain(service: str, key: str) -> Response:
        return json(route(owners, topics, service, key), NAME)
