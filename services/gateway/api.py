"""The gateway: one address for all services."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from services.gateway import documents
from services.gateway.names import NameCache
from services.gateway.owners import Owners
from services.gateway.profile import UserMetrics, UserProfile
from services.gateway.recent import Recent
from services.gateway.recommended import NamedRecommendations
from services.gateway.route import Route, route
from services.gateway.router import Router
from services.gateway.users import METRICS, RECENT, RECOMMENDATIONS, Users
from services.recommendations.answers import Parameters, path
from streamstate import bootstrap
from streamstate.keys import LONG
from streamstate.settings import GatewaySettings
from streamstate.web.client.instances import Instances
from streamstate.web.http.problems import not_ready
from streamstate.web.http.request import JSON, Request, Response, json
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.openapi import Routes, query_parameters
from streamstate.web.server.probes import application
from streamstate.web.views import asked_for_many

NAME = "gateway"


def create() -> Asgi:
    """The application with the settings of the process. Raises `Misconfigured` when one does not fit."""
    settings = bootstrap.configure(GatewaySettings)
    return build(settings, _addresses(settings))


def _addresses(settings: GatewaySettings) -> Mapping[str, Sequence[str]]:
    """The instances of each service: as Kubernetes sees them, or a fixed list."""
    if not settings.services:
        return {service: given.split(",") for service, given in settings.instances.items()}
    # Kubernetes' client takes a second to import, and 30 MB.
    from services.gateway.endpoints import watched  # noqa: PLC0415

    return watched(settings.services, settings.namespace)


def build(settings: GatewaySettings, addresses: Mapping[str, Sequence[str]]) -> Asgi:
    """The application over the instances at these addresses."""
    client = Instances()
    owners = Owners(addresses, client, settings.owners_ttl_s)
    router = Router(owners, client)

    async def ready() -> None:
        missing = owners.missing()
        if len(missing) == len(addresses):
            raise not_ready(f"no instance answers of: {', '.join(missing)}")

    routes, telemetry = application(NAME, NAME, ready=ready, readiness="The instances of every service are known")
    _add_users(routes, Users(owners, router, NameCache(router, settings.names_cached)))
    _add_services(routes, owners, router)
    return Asgi(routes, settings, telemetry, starting=[owners.start], ending=[owners.stop, client.close])


def _add_users(routes: Routes, users: Users) -> None:
    summary = "All that is known of a user, with names"
    routes.read("/v1/users/<key>", "user", users.profile, summary, UserProfile, LONG)
    summary = "The plays of a user in numbers, with names"
    routes.read("/v1/users/<key>/metrics", METRICS.view, partial(users.named, METRICS), summary, UserMetrics, LONG)
    summary = "The most recent plays of a user, with names"
    routes.read("/v1/users/<key>/recent", RECENT.view, partial(users.named, RECENT), summary, Recent, LONG)
    query = query_parameters(Parameters)
    for kind, named_view in RECOMMENDATIONS.items():
        summary = f"{kind.capitalize()} that a user may like and does not know, with names"
        handler = partial(users.named, named_view)
        routes.read(path(kind), named_view.view, handler, summary, NamedRecommendations, LONG, query)


def _add_services(routes: Routes, owners: Owners, router: Router) -> None:
    """What is answered of any service."""

    async def any_view(request: Request, rest: str) -> Response:
        """Any path that a service answers, sent to the owner of the key in it."""
        service, entry, text = await owners.find(f"/v1/{rest}")
        return await router.one(service, entry, text, request.query, request.deadline)

    async def many(request: Request) -> Response:
        """Many keys of any views: each service is asked for its own."""
        answers: dict[str, Any] = {}
        for service, asked in (await owners.by_service(asked_for_many(request, owners.views()))).items():
            answers |= await router.many(service, asked, request.deadline)
        return json(answers, NAME)

    async def explain(_request: Request, service: str, key: str) -> Response:
        return json(await route(owners, service, key), NAME)

    async def document(_request: Request) -> Response:
        """The document of all services: theirs are asked for whenever it is."""
        theirs = await asyncio.gather(*(owners.document(service, documents.SPEC) for service in owners.addresses))
        with routes.app_context():
            own = cast("dict[str, Any]", routes.spec)
        return Response(200, documents.merged(own, theirs), {"Content-Type": JSON})

    routes.hidden("/v1/<path:rest>", "view", any_view)
    routes.many(many)
    summary = "Which instance answers for a key of a service, and why"
    routes.read("/v1/route/<service>/<key>", "route", explain, summary, Route)
    routes.view_functions["openapi.spec"] = cast("Any", document)
