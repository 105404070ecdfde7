"""The gateway: one address for all services."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import resources
from typing import Any, cast

from services.gateway import documents
from services.gateway.balance import Balance
from services.gateway.names import NameCache
from services.gateway.owners import Owners
from services.gateway.route import Route, route
from services.gateway.router import Router
from services.gateway.search import Found, Search, search
from services.gateway.system import System, SystemState
from services.gateway.users import PARTS, Users
from services.gateway.watch import Watch
from streamstate import bootstrap
from streamstate.keys import LONG
from streamstate.settings import GatewaySettings
from streamstate.web.client.instances import Instances
from streamstate.web.http import parameters
from streamstate.web.http.events import Stream, Streams
from streamstate.web.http.problems import not_ready
from streamstate.web.http.request import JSON, Request, Response, json
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.openapi import LAST, Routes, query_parameters
from streamstate.web.server.probes import application
from streamstate.web.server.static import static
from streamstate.web.views import asked_for_many

NAME = "gateway"


def create() -> Asgi:
    """The application with the settings of the process. Raises `Misconfigured` when one does not fit."""
    settings = bootstrap.configure(GatewaySettings)
    if not settings.services:
        return build(settings, {service: given.split(",") for service, given in settings.instances.items()})
    # Kubernetes' client takes a second to import, and 30 MB.
    from services.gateway.endpoints import watched  # noqa: PLC0415

    return build(settings, watched(settings.services, settings.namespace))


def build(settings: GatewaySettings, addresses: Mapping[str, Sequence[str]]) -> Asgi:
    """The application over the instances at these addresses."""
    client = Instances()
    balance = Balance(client)
    owners = Owners(addresses, balance, settings.owners_ttl_s)
    router = Router(owners, balance)

    async def ready() -> None:
        missing = owners.missing()
        if len(missing) == len(addresses):
            raise not_ready(f"no instance answers of: {', '.join(missing)}")

    routes, telemetry = application(NAME, NAME, ready)
    users = Users(owners, router, NameCache(owners, router, settings.names_cached))
    _add_routes(routes, owners, users)
    _add_search(routes, owners, router)
    longest_s = settings.deadline_ms / 1000
    watch, system = Watch(owners, router, users, settings.watch_ms / 1000, longest_s), System(owners, client)
    _add_streams(routes, Streams(settings.streams, settings.heartbeat_s), watch, system)
    return Asgi(routes, settings, telemetry, starting=[owners.start], ending=[owners.stop, client.close])


def _add_routes(routes: Routes, owners: Owners, users: Users) -> None:
    async def many(request: Request) -> Response:
        """Many keys of any views, and users: each service is asked for its own."""
        asked = asked_for_many(request, [*owners.keyed, documents.USERS], besides=PARTS)
        return json(await users.many(asked, request.deadline), NAME)

    async def explain(_request: Request, service: str, key: str) -> Response:
        return json(route(owners, service, key), NAME)

    async def document(_request: Request) -> Response:
        """The document of all services: theirs are asked for whenever it is."""
        theirs = await asyncio.gather(*(owners.document(service, documents.SPEC) for service in owners.addresses))
        with routes.app_context():
            own = cast("dict[str, Any]", routes.spec)
        body = documents.merged(own, theirs, [view for _, view in owners.views])
        return Response(200, body, {"Content-Type": JSON})

    summary = "All that is known of a user, with names"
    routes.read("/v1/users/<key>", "user", users.user, summary, documents.UserProfile, LONG, [documents.PARTS])
    routes.hidden("/v1/<path:rest>", "view", users.view)
    routes.many(many, {})
    summary = "Which instance answers for a key of a service, and why"
    routes.read("/v1/route/<service>/<key>", "route", explain, summary, Route)
    page = static((resources.files(__package__) / "page").iterdir())
    routes.hidden("/", "page", page)
    routes.hidden("/page/<name>", "page-file", page)
    routes.view_functions["openapi.spec"] = cast("Any", document)


def _add_search(routes: Routes, owners: Owners, router: Router) -> None:
    async def find(request: Request) -> Response:
        return json(await search(owners, router, parameters.parse(Search, request.query), request.deadline), NAME)

    summary = "A sample of the users whose ids begin with some digits"
    routes.read(f"/v1/{documents.USERS}", "search-users", find, summary, Found, None, query_parameters(Search))


def _add_streams(routes: Routes, streams: Streams, watch: Watch, system: System) -> None:
    async def user_stream(request: Request, key: str) -> Stream:
        LONG.parse(key)
        with ExitStack() as held:
            held.enter_context(streams.place())
            latest = held.enter_context(watch.watching(await watch.find(key, request.query, request.deadline)))
            return streams.of(latest, request.headers, held.pop_all().close)

    async def system_stream(request: Request) -> Stream:
        with ExitStack() as held:
            held.enter_context(streams.place())
            return streams.of(held.enter_context(system.watching()), request.headers, held.pop_all().close)

    async def system_now(_request: Request) -> Response:
        return json(await system.look(), NAME)

    summary = "The same as server-sent events: the whole answer, and again whenever it has changed"
    profile = documents.UserProfile | None
    routes.stream("/v1/users/<key>/stream", "user-stream", user_stream, summary, profile, LONG, [documents.PARTS, LAST])
    routes.process("/v1/system", "system", system_now, "Services, partitions and their owners", SystemState)
    routes.stream("/v1/system/stream", "system-stream", system_stream, summary, SystemState)
