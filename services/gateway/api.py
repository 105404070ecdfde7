"""The gateway: one address for all services."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
from apiflask import APIFlask
from flask import Response, request

from services.gateway import documents
from services.gateway.names import Names
from services.gateway.owners import Owners
from services.gateway.profile import UserProfile, named, things
from services.gateway.router import Router
from services.metrics.model import Profile
from streamstate.kafka import Topics
from streamstate.keys import LONG
from streamstate.settings import GatewaySettings, load
from streamstate.web import openapi, problems
from streamstate.web.answers import asked_for_many, json, relay
from streamstate.web.api import THREADS
from streamstate.web.client import Instances
from streamstate.web.deadline import Deadline
from streamstate.web.problems import Problem, not_ready
from streamstate.web.telemetry import Telemetry

NAME = "gateway"
PROFILES = {
    "/v1/users/<key>": ("user", "All that is known of a user, with names"),
    "/v1/users/<key>/metrics": ("metrics", "The plays of a user in numbers, with names"),
}
_decode_profile = msgspec.json.Decoder(Profile).decode


def create() -> APIFlask:
    """For gunicorn: `services.gateway.api:create()`."""
    settings = load(GatewaySettings)
    client = Instances(THREADS)
    owners = Owners(_addresses(settings), client, settings.owners_ttl_s, settings.deadline_ms / 1000)
    owners.start()
    topics = Topics(settings.kafka, security=settings.security)
    router = Router(owners, topics, client, ThreadPoolExecutor(2 * THREADS, NAME))
    return build(settings, owners, router)


def _addresses(settings: GatewaySettings) -> Mapping[str, Sequence[str]]:
    """The instances of each service: as Kubernetes sees them, or a fixed list."""
    if not settings.services:
        return {service: given.split(",") for service, given in settings.instances.items()}
    # Kubernetes' client takes a second to import, and 30 MB.
    from services.gateway.endpoints import Endpoints, KubernetesSlices  # noqa: PLC0415

    endpoints = Endpoints(settings.services, KubernetesSlices(settings.namespace, settings.services.values()))
    endpoints.start()
    return endpoints


def build(settings: GatewaySettings, owners: Owners, router: Router) -> APIFlask:
    """The application over these parts."""
    flask = openapi.application(NAME)
    problems.install(flask)
    Telemetry(NAME).install(flask)
    _add_profile(flask, settings, owners, router)
    _add_views(flask, settings, owners, router)
    _add_many(flask, settings, owners, router)
    _add_status(flask, owners)
    parameters = {path: [openapi.key_parameter(LONG)] for path in PROFILES}

    @flask.before_request
    def forget_document() -> None:
        # APIFlask keeps its first document, but services may come later.
        if request.path == documents.SPEC:
            flask._spec = None

    openapi.describe(flask, [UserProfile], parameters, partial(documents.merge, owners=owners))
    return flask


def _add_profile(flask: APIFlask, settings: GatewaySettings, owners: Owners, router: Router) -> None:
    names = Names(router, settings.names_ttl_s, settings.names_cached)

    def profile(key: str) -> Response:
        deadline = Deadline.of_request(settings.deadline_ms)
        LONG.parse(key)
        view = owners.service("metrics").view("metrics")
        answer = router.one("metrics", view, key, list(request.args.items(multi=True)), deadline)
        if answer.status != 200:
            return relay(answer)
        found = _decode_profile(answer.body)
        try:
            return json(named(found, names.find(things(found), deadline), []), answer.served_by)
        except Problem as problem:
            return json(named(found, {}, [f"names: {problem.detail}"]), answer.served_by)

    for path, (name, summary) in PROFILES.items():
        flask.add_url_rule(path, name, flask.doc(**documents.profile(name, summary))(profile))


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


def _add_status(flask: APIFlask, owners: Owners) -> None:
    @flask.get("/livez")
    @flask.doc(summary="The process runs")
    def livez() -> Response:
        return json({"status": "alive"}, NAME)

    @flask.get("/readyz")
    @flask.doc(summary="The instances of every service are known")
    def readyz() -> Response:
        if missing := owners.missing():
            raise not_ready(f"no instance answers of: {', '.join(missing)}")
        return json({"status": "ready"}, NAME)
