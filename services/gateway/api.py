"""The gateway: one address for all services."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from importlib import resources

import msgspec
import structlog

from services.gateway import documents, needs
from services.gateway.access.guard import Access
from services.gateway.erasure import EXAMPLE_DELETION, EXAMPLE_EXPORT, EXPORTED, PATH, ErasureRoutes
from services.gateway.names import NameCache
from services.gateway.needs import NAME, ReadRoutes
from services.gateway.routing.beside import ReleaseFile
from services.gateway.routing.directory import not_found, service_of
from services.gateway.routing.owners import Owners
from services.gateway.routing.route import EXAMPLE_ROUTE, route, unknown_service
from services.gateway.routing.router import Router
from services.gateway.routing.upstream import Upstream, no_instance
from services.gateway.search import Found, Search, search
from services.gateway.settings import AccessSettings, GatewaySettings
from services.gateway.streams.crossings import CROSSING, EXAMPLE, Crossings, rule_path
from services.gateway.streams.polled import PolledEvents
from services.gateway.streams.watch import Watch
from services.gateway.system import ANSWER_S, EXAMPLE_STATE, SYSTEM, System, SystemState
from services.gateway.users import Users
from streamstate import bootstrap
from streamstate.keys import LONG, TEXT
from streamstate.profile.rules.crossings import RULES, Crossing
from streamstate.settings import load
from streamstate.view import ADMIN, EXPLORE, READ
from streamstate.web.access.certificates import to_instances
from streamstate.web.client.instances import Instances
from streamstate.web.http import parameters
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import LAST_EVENT_ID, EventStream, Series, ServerSentEvent, Streams, too_many_streams
from streamstate.web.http.problems import Problem, not_ready
from streamstate.web.http.request import JSON, Request, Response, json
from streamstate.web.partition_map import OVER_ALL_COST
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.cors import Cors
from streamstate.web.server.guard import Guard, internal_tokens
from streamstate.web.server.openapi import SPEC, Routes
from streamstate.web.server.parameters import LAST, of_struct
from streamstate.web.server.probes import application
from streamstate.web.server.responses import Answer
from streamstate.web.server.route import Call, Needs, Resolver, resolver
from streamstate.web.server.static import static

log = structlog.get_logger()

REST = 9
"""The pause after a read of a view over all keys, in durations of the read: a tenth of the time of one instance."""


def create() -> Asgi:
    """The application with the settings of the process. Raises `Misconfigured` for an invalid setting."""
    settings, access = bootstrap.configure(GatewaySettings), load(AccessSettings)
    if not settings.services:
        return build(settings, {service: given.split(",") for service, given in settings.instances.items()}, access)
    # Kubernetes' client takes a second to import, and 30 MB.
    from services.gateway.routing.endpoints import watched  # noqa: PLC0415

    return build(settings, watched(settings.services, settings.namespace), access)


def build(settings: GatewaySettings, addresses: Mapping[str, Sequence[str]], access: AccessSettings) -> Asgi:
    """The application over the instances at `addresses`. Raises `Misconfigured` for an unreadable file."""

    async def ready() -> None:
        missing = owners.now.missing()
        if len(missing) == len(owners.now.services):
            raise not_ready(f"no instance answers of: {', '.join(missing)}")

    services = dict.fromkeys(map(service_of, addresses))
    further = [not_found(), no_instance(), unknown_service(services), too_many_streams(settings.streams)]
    routes, telemetry = application(NAME, NAME, ready, further, lambda: owners.now.silent_since)
    routes.cors = Cors(settings.origins)
    client = Instances(internal_tokens(settings, telemetry), to_instances(settings), name=NAME)
    find_releases: Callable[[], object] = bool
    if settings.releases:
        by_hand = ReleaseFile(addresses, settings.releases)
        addresses, find_releases = by_hand.all, by_hand.look
    upstream = Upstream(addresses, client, settings.requests_in_flight_per_instance)
    owners = Owners(upstream, settings.owners_ttl_s, find_releases)
    router = Router(upstream)
    users = Users(router, NameCache(router, settings.names_cached))
    _add_routes(routes, owners, users)
    _add_search(routes, owners, router)
    _add_erasure(routes, owners, ErasureRoutes(owners, upstream))
    longest_s = settings.deadline_ms / 1000
    watch, system = Watch(owners, router, users, settings.watch_ms / 1000, longest_s), System(owners, client)
    streams = Streams(settings.streams, settings.heartbeat_s)
    _add_streams(routes, owners, streams, watch, system)
    _add_rules(routes, owners, streams, Crossings(owners, router, settings.watch_ms / 1000, longest_s))
    _add_views(routes, owners, router, ReadRoutes(owners, users), streams, longest_s)
    if settings.access == "off":
        return Asgi(routes, settings, telemetry, [_warn, owners.start], [owners.stop, client.close], Guard())
    guarding = Access.from_settings(access, settings.streams, telemetry.unreadable)
    starting, ending = [owners.start, guarding.start], [owners.stop, client.close, guarding.stop]
    return Asgi(routes, settings, telemetry, starting, ending, guarding)


async def _warn() -> None:
    log.warning("access is off: everybody is answered")


def _add_routes(routes: Routes, owners: Owners, users: Users) -> None:
    reads = ReadRoutes(owners, users)

    async def explain(_request: Request, service: str, key: str) -> Response:
        return json(route(owners, service, key), NAME)

    async def document(request: Request) -> Response:
        """The document of all services, read at each request."""
        directory = owners.directory(request.headers)
        theirs = await asyncio.gather(*(owners.document(directory, service, SPEC) for service in directory.services))
        body = documents.merged(routes, routes.document(), theirs, [view for _, view in directory.views])
        return Response(200, body, {"Content-Type": JSON})

    summary = "All that is known of a user, with names"
    nothing = Answer.of_state(documents.UserProfile([]))
    user = Resolver(reads.user, checks_query=True)
    routes.add(needs.USER_PATH, "user", user, summary, nothing, LONG, [documents.PARTS], READ)
    routes.many(Resolver(reads.many), {}, {})
    summary = "Which instance answers for a key of a service, and why"
    routes.add("/v1/route/<service>/<key>", "route", explain, summary, Answer.like(EXAMPLE_ROUTE))
    files = [*(resources.files(__package__) / "page").iterdir()]
    page = static(files)
    routes.hidden("/", "page", page)
    routes.hidden("/page/<name>", "page-file", page)
    # The files are public; the page asks for data with the key.
    routes.open_paths |= {"/", *(f"/page/{file.name}" for file in files)}
    described = resolver(document, SPEC, lambda *_: needs.DOCUMENT)
    routes.table["openapi"] = replace(routes.table["openapi"], resolver=described)


def _add_views(
    routes: Routes, owners: Owners, router: Router, reads: ReadRoutes, streams: Streams, longest_s: float
) -> None:
    polled = PolledEvents(REST, longest_s)

    async def stream(request: Request, path: str) -> EventStream:
        async def read(deadline: Deadline) -> ServerSentEvent:
            body = await router.body(owners.now, path, request.query, deadline)
            return ServerSentEvent(path.rpartition("/")[2], "", body)

        begin = partial(polled.begin, (path, *request.query), read, request.deadline, request.caller)
        return await streams.open(begin, request.headers)

    def view_or_stream(request: Request, arguments: Mapping[str, str]) -> Call:
        """Any view; behind the path of a view over all keys, `/stream`, unless the path is of a key called stream."""
        try:
            return reads.view(request, arguments)
        except Problem:
            path, _, last = request.path.rpartition("/")
            located = owners.now.over_all_keys(path) if last == "stream" else None
            if located is None:
                raise
            needed = needs.of_view(*located, "", request)
            return Call(partial(stream, request, path), f"{located[1].path}/stream", needed)

    routes.hidden("/v1/<path:rest>", "view", Resolver(view_or_stream))


def _add_search(routes: Routes, owners: Owners, router: Router) -> None:
    async def find(request: Request) -> Response:
        return json(await search(owners.now, router, parameters.parse(Search, request.query), request.deadline), NAME)

    summary, found = "A sample of the users whose ids begin with some digits", Answer.of_state(Found([42, 420]))
    path, price = f"/v1/{documents.USERS}", Needs({EXPLORE}, needs.SEARCH_COST)
    finding = resolver(find, path, lambda *_: price)
    routes.add(path, "search-users", finding, summary, found, None, of_struct(Search), EXPLORE)


def _add_erasure(routes: Routes, owners: Owners, erasure: ErasureRoutes) -> None:
    as_user = partial(needs.of_user, owners, ADMIN)
    summary, deletion = (
        "Delete what all services hold of a user; Location tells how far it is",
        Answer.like(EXAMPLE_DELETION),
    )
    deleting = resolver(erasure.delete, needs.USER_PATH, as_user)
    routes.add(needs.USER_PATH, "delete-user", deleting, summary, deletion, TEXT, method="delete")
    summary = "How far the deletion of a user is, by service"
    asking = resolver(erasure.deletion_status, PATH, as_user)
    routes.add(PATH, "user-deletion", asking, summary, deletion, TEXT)
    summary = "All that the services hold of a user"
    exporting = resolver(erasure.export, EXPORTED, needs.of_export)
    routes.add(EXPORTED, "user-export", exporting, summary, Answer.like(EXAMPLE_EXPORT), TEXT)


def _add_streams(routes: Routes, owners: Owners, streams: Streams, watch: Watch, system: System) -> None:
    polled = PolledEvents(0.0, ANSWER_S)

    async def user_stream(request: Request, key: str) -> EventStream:
        LONG.parse(key)
        return await streams.open(partial(watch.begin, key, request.query, request.deadline), request.headers)

    async def system_stream(request: Request) -> EventStream:
        async def begin() -> AbstractContextManager[Series]:
            return polled.watching(SYSTEM, system.event)

        return await streams.open(begin, request.headers)

    async def system_now(_request: Request) -> Response:
        return json(await system.read_state(), NAME)

    summary = "The same as server-sent events: the whole answer, and again whenever it has changed"
    profiles = Answer(documents.UserProfile | None, ServerSentEvent(documents.PROFILE, "", b"null"))
    path = f"{needs.USER_PATH}/stream"
    streaming = resolver(user_stream, path, partial(needs.of_user, owners, READ))
    routes.add(path, "user-stream", streaming, summary, profiles, LONG, [documents.PARTS, LAST], READ)
    asking = resolver(system_now, "/v1/system", lambda *_: needs.SYSTEM)
    routes.add("/v1/system", "system", asking, "Services, partitions and their owners", Answer.like(EXAMPLE_STATE))
    states = Answer(SystemState, ServerSentEvent(SYSTEM, "", msgspec.json.encode(EXAMPLE_STATE)))
    routes.add("/v1/system/stream", "system-stream", system_stream, summary, states)


def _add_rules(routes: Routes, owners: Owners, streams: Streams, crossings: Crossings) -> None:
    async def rule_stream(request: Request, rule: str, profile: str = "") -> EventStream:
        path, last_id = rule_path(owners.now, rule, profile), request.headers.get(LAST_EVENT_ID.lower(), "")
        return await streams.open(partial(crossings.begin, path, last_id, request.deadline), request.headers)

    summary = "Each crossing of a rule as a server-sent event, from now on, or from Last-Event-ID on"
    example = ServerSentEvent(CROSSING, "listening-events:0=18", msgspec.json.encode(EXAMPLE))
    for name, named in (("rule-stream", "<rule>"), ("profile-rule-stream", "<profile>/<rule>")):
        path = f"{RULES}{named}/stream"
        streaming = resolver(rule_stream, path, lambda *_: Needs({EXPLORE}, OVER_ALL_COST))
        routes.add(path, name, streaming, summary, Answer(Crossing, example), None, [LAST], EXPLORE)
