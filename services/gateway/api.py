"""The gateway: one address for all services."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from apiflask import APIFlask

from services.events import KINDS
from services.gateway import documents
from services.gateway.names import NameCache
from services.gateway.owners import Owners
from services.gateway.profile import UserMetrics, UserProfile
from services.gateway.recent import Recent
from services.gateway.recommended import NamedRecommendations
from services.gateway.route import Route, route
from services.gateway.router import Router
from services.gateway.users import METRICS, RECENT, RECOMMENDATIONS, NamedView, Users
from services.recommendations.answers import Parameters, path
from streamstate import bootstrap
from streamstate.keys import LONG
from streamstate.settings import GatewaySettings
from streamstate.web.client.instances import Instances, relay
from streamstate.web.http.problems import not_ready
from streamstate.web.http.request import JSON, Request, Response, json
from streamstate.web.server import openapi
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.probes import application
from streamstate.web.views import asked_for_many

NAME = "gateway"
ROUTE = "/v1/route/<service>/<key>"
USER, USER_METRICS, USER_RECENT = "/v1/users/<key>", "/v1/users/<key>/metrics", "/v1/users/<key>/recent"


def create() -> Asgi:
    """For gunicorn: `services.gateway.api:create()`."""
    with bootstrap.exiting():
        settings = bootstrap.configure(GatewaySettings)
    return build(settings, _addresses(settings))


def _addresses(settings: GatewaySettings) -> Mapping[str, Sequence[str]]:
    """The instances of each service: as Kubernetes sees them, or a fixed list."""
    if not settings.services:
        return {service: given.split(",") for service, given in settings.instances.items()}
    # Kubernetes' client takes a second to import, and 30 MB.
    from services.gateway.endpoints import Endpoints, KubernetesSlices  # noqa: PLC0415

    endpoints = Endpoints(settings.services, KubernetesSlices(settings.namespace, settings.services.values()))
    endpoints.start()
    return endpoints


def build(settings: GatewaySettings, addresses: Mapping[str, Sequence[str]]) -> Asgi:
    """The application over the instances at these addresses."""
    client = Instances()
    owners = Owners(addresses, client, settings.owners_ttl_s)
    router = Router(owners, client)

    async def ready() -> None:
        missing = owners.missing()
        if len(missing) == len(addresses):
            raise not_ready(f"no instance answers of: {', '.join(missing)}")

    flask, telemetry = application(NAME, NAME, ready=ready, readiness="The instances of every service are known")
    _add_users(flask, Users(owners, router, NameCache(router, settings.names_cached)))
    _add_views(flask, owners, router)
    _add_many(flask, owners, router)
    _add_route(flask, owners)
    _add_document(flask, owners)
    return Asgi(flask, settings, telemetry, starting=[owners.start], ending=[owners.stop, client.close])


def _add_users(flask: APIFlask, users: Users) -> None:
    def add(rule: str, named_view: NamedView[Any], summary: str, answers: type[msgspec.Struct]) -> None:
        async def view(request: Request, key: str) -> Response:
            return await users.named(named_view, request, key)

        document = openapi.of_route(named_view.view, f"{summary}, with names", answers)
        openapi.route(flask, rule, named_view.view, view, **document)

    document = openapi.of_route("user", "All that is known of a user, with names", UserProfile)
    openapi.route(flask, USER, "user", users.profile, **document)
    add(USER_METRICS, METRICS, "The plays of a user in numbers", UserMetrics)
    add(USER_RECENT, RECENT, "The most recent plays of a user", Recent)
    for kind, named_view in RECOMMENDATIONS.items():
        summary = f"{kind.capitalize()} that a user may like and does not know"
        add(path(kind), named_view, summary, NamedRecommendations)


def _add_views(flask: APIFlask, owners: Owners, router: Router) -> None:
    async def view(request: Request, rest: str) -> Response:
        """Any path that a service answers, sent to the owner of the key in it."""
        service, found, text = await owners.find(f"/v1/{rest}")
        return relay(await router.one(service, found, text, request.query, request.deadline))

    openapi.route(flask, "/v1/<path:rest>", "view", view, hide=True)


def _add_many(flask: APIFlask, owners: Owners, router: Router) -> None:
    async def many(request: Request) -> Response:
        """Many keys of any views: each service is asked for its own."""
        answers: dict[str, Any] = {}
        for service, asked in (await owners.by_service(asked_for_many(request, owners.views()))).items():
            answers |= await router.many(service, asked, request.deadline)
        return json(answers, NAME)

    openapi.route(flask, openapi.MANY, "many", many, **openapi.of_many())


def _add_route(flask: APIFlask, owners: Owners) -> None:
    async def explain(_request: Request, service: str, key: str) -> Response:
        return json(await route(owners, service, key), NAME)

    document = openapi.of_route("route", "Which instance answers for a key of a service, and why", Route)
    openapi.route(flask, ROUTE, "route", explain, **document)


def _add_document(flask: APIFlask, owners: Owners) -> None:
    """The document of all services: theirs are asked for whenever it is."""
    key = openapi.key_parameter(LONG)
    parameters = {rule: [key] for rule in (USER, USER_METRICS, USER_RECENT)}
    service = {"in": "path", "name": "service", "required": True, "schema": {"type": "string"}}
    parameters[ROUTE] = [service, {"in": "path", "name": "key", "required": True, "schema": {"type": "string"}}]
    parameters |= {path(kind): [key, *openapi.query_parameters(Parameters)] for kind in KINDS}
    shapes = [UserProfile, UserMetrics, Recent, NamedRecommendations, Route]
    openapi.describe(flask, shapes, parameters)

    async def document(_request: Request) -> Response:
        found = await asyncio.gather(*(owners.document(service, documents.SPEC) for service in owners.addresses))
        merged = await asyncio.to_thread(documents.merged, flask, found)
        return Response(200, merged, {"Content-Type": JSON})

    flask.view_functions["openapi.spec"] = cast("Any", document)
