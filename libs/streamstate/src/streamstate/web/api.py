"""The API of a service: a Flask application over the state, built from the contract alone, served as ASGI."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
from apiflask import APIFlask
from prometheus_client.core import Metric
from redis.exceptions import RedisError

from streamstate.app import App, View
from streamstate.deployment.overrides import renamed
from streamstate.errors import StreamStateError
from streamstate.kafka.admin import Topics
from streamstate.settings import ApiSettings
from streamstate.state.redis_reader import RedisReader, open_commands
from streamstate.state.store import AsyncReads
from streamstate.web.client.instances import Instances
from streamstate.web.consistency import Demands
from streamstate.web.freshness import Freshness
from streamstate.web.http.request import Request, Response, json
from streamstate.web.partition_map import PATH, ViewEntry, entries, entry, processors
from streamstate.web.server import openapi
from streamstate.web.server.asgi import Asgi
from streamstate.web.server.probes import application
from streamstate.web.server.telemetry import Telemetry, of_partitions
from streamstate.web.state import State
from streamstate.web.views import Answers

log = structlog.get_logger()


def create_api(app: App, settings: ApiSettings) -> Asgi:
    """The application of `app`. Redis is connected to by the first request."""
    app = renamed(app, settings.name, settings.topics)
    reads = RedisReader(open_commands(settings.redis, settings.redis_timeout_s), app.name)
    return build(app, settings, reads, Freshness(Topics(settings.kafka, security=settings.security), app.topics))


def build(app: App, settings: ApiSettings, reads: AsyncReads, freshness: Freshness) -> Asgi:
    """The same over any store; what runs in the background begins with the server."""
    state = State(app, reads, freshness, settings.truncated_topics)

    async def ready() -> None:
        for partition, snapshot in (await state.everywhere()).items():
            if snapshot.owner in (None, settings.advertise):
                state.require_ready(partition, snapshot, app.topics)

    flask, telemetry = skeleton(app, settings, state, freshness, views=entries(app), ready=ready)
    instances = Instances()
    demands = Demands(freshness, state.positions, settings)
    answers = Answers(app, settings, state, freshness, demands, instances, telemetry)
    for view in app.views:
        _add_view(flask, answers, view)
    openapi.route(flask, openapi.MANY, "many", answers.many, **openapi.of_many())
    parameters = {view.path: openapi.view_parameters(view) for view in app.views}
    parameters[openapi.MANY] = openapi.many_parameters(app.views)
    openapi.describe(flask, [view.answers for view in app.views], parameters)
    return Asgi(flask, settings, telemetry, starting=[freshness.start], ending=[instances.close, reads.close])


def skeleton(
    app: App,
    settings: ApiSettings,
    state: State,
    freshness: Freshness,
    *,
    views: list[ViewEntry],
    ready: Callable[[], Awaitable[None]],
    alive: Callable[[], None] = lambda: None,
) -> tuple[APIFlask, Telemetry]:
    """What the API of every service has, whatever it answers: `/processors` with these `views`, metrics of its state.

    `ready` and `alive` raise a `Problem` when the instance is not.
    """
    means = "The instance has all that it answers from"
    flask, telemetry = application(app.name, settings.advertise, ready=ready, readiness=means, alive=alive)

    async def metrics() -> Iterable[Metric]:
        try:
            return of_partitions(app.name, await state.everywhere())
        except (StreamStateError, RedisError) as error:
            log.info("the state cannot be scraped now", reason=str(error))
            return ()

    telemetry.further(metrics)

    async def owners(_request: Request) -> Response:
        return json(await processors(app, state, freshness, views), settings.advertise)

    for path in (PATH, entry(app).path):
        document = openapi.of_process("Who owns which partition, and which views are answered")
        openapi.route(flask, path, path, owners, **document)
    return flask, telemetry


def _add_view(flask: APIFlask, answers: Answers, view: View[Any]) -> None:
    async def answer(request: Request, key: str = "") -> Response:
        return await (answers.all if view.topic is None else answers.one)(view, key, request)

    openapi.route(flask, view.path, view.name, answer, **openapi.of_route(view.name, view.summary, view.answers))
