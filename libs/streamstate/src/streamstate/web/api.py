"""The API of a service: Flask routes over the state, built from the contract alone, served as ASGI."""

from collections.abc import Iterable
from functools import partial

import structlog
from flask import Flask
from prometheus_client.core import Metric
from redis.exceptions import RedisError

from streamstate import bootstrap
from streamstate.app import App
from streamstate.deployment.state_metrics import in_use, of_partitions
from streamstate.erasure.topic import DeletionTopic
from streamstate.errors import StreamStateError
from streamstate.settings import ApiSettings
from streamstate.state.store import AsyncReads
from streamstate.web.access.certificates import to_instances
from streamstate.web.client.instances import Instances
from streamstate.web.consistency import Demands
from streamstate.web.freshness import Freshness
from streamstate.web.http.parameters import parse
from streamstate.web.http.problems import not_the_owner
from streamstate.web.http.request import Request, Response, json
from streamstate.web.memory import StateMemory
from streamstate.web.partition_map import EXAMPLE, PATH, VERSIONS, MapQuery, ViewEntry, entries, entry, processors
from streamstate.web.server.asgi import Asgi, Hook
from streamstate.web.server.guard import internal_tokens
from streamstate.web.server.openapi import Routes
from streamstate.web.server.parameters import of_struct
from streamstate.web.server.probes import application
from streamstate.web.server.responses import Answer
from streamstate.web.server.telemetry import Telemetry
from streamstate.web.state import AppState
from streamstate.web.user_data import UserData
from streamstate.web.views import Answers

log = structlog.get_logger()


def create(service: str) -> Asgi:
    """The application of a service: from `create` in its `api.py`, or by default its views over the state.

    Connects at the first request. Raises `Misconfigured` for an invalid setting or service.
    """
    if own := bootstrap.service_module(f"{service}.api"):
        made: Asgi = own.create()
        return made
    settings = bootstrap.configure(ApiSettings)
    app = bootstrap.app(service, settings)
    topics = bootstrap.topics(settings.kafka, settings.security)
    freshness, deletions = Freshness(topics, app.topics), bootstrap.deletions(settings, topics)
    memory = StateMemory(lambda: bootstrap.footprint(settings, app.name).state)
    return build(app, settings, bootstrap.reads(settings, app), freshness, deletions, memory)


def flask_app(service: str) -> Flask:
    """The Flask application of a service: `flask --app "streamstate.web.api:flask_app('services.metrics')" routes`."""
    return create(service).flask


def build(
    app: App,
    settings: ApiSettings,
    reads: AsyncReads,
    freshness: Freshness,
    deletions: DeletionTopic | None = None,
    memory: StateMemory | None = None,
) -> Asgi:
    """The views of `app` over any store; background threads start with the server.

    deletions: without a topic, users are not deleted. memory: without it, the memory of the state is not estimated.
    """
    state = AppState(app, reads, freshness, settings.truncated_topics, bootstrap.commands(app))

    async def ready() -> None:
        for partition, snapshot in (await state.everywhere()).items():
            if snapshot.owner in (None, settings.advertise):
                state.require_ready(partition, snapshot, app.topics)

    views = entries(app)
    routes, telemetry = skeleton(app, settings, state, freshness, views, ready, memory)
    instances = Instances(internal_tokens(settings, telemetry), to_instances(settings), name=app.name)
    demands = Demands(freshness, state.positions, settings)
    answers = Answers(app, settings.advertise, state, demands, instances, telemetry)
    for view in app.views:
        query = of_struct(view.query) if view.query else ()
        handler = partial(answers.view, view)
        routes.add(view.path, view.name, handler, view.summary, Answer.of_state(view.example), view.key, query)
    UserData(app, state, settings.advertise, deletions).add_to(routes)
    keyed = {view.name: view for view in app.views if not view.over_all_partitions}
    examples = {name: view.example for name, view in keyed.items()}
    routes.many(partial(answers.many, keyed), {view.name: view.key for view in views if not view.anywhere}, examples)
    versions = {name: version for name, view in keyed.items() if (version := view.versions)}
    routes.hidden(VERSIONS, "versions", partial(answers.many, versions))
    return Asgi(routes, settings, telemetry, starting=[freshness.start], ending=[instances.close, reads.close])


def skeleton(
    app: App,
    settings: ApiSettings,
    state: AppState,
    freshness: Freshness,
    views: list[ViewEntry],
    ready: Hook,
    memory: StateMemory | None = None,
) -> tuple[Routes, Telemetry]:
    """The common parts of every service's API: `/processors` with these `views`, and metrics of its state.

    `ready` raises a `Problem` when the instance is not ready.
    """
    further = [not_the_owner("metrics-1:8101", 3)]
    routes, telemetry = application(app.name, settings.advertise, ready, further, lambda: freshness.silent_since)

    async def metrics() -> Iterable[Metric]:
        try:
            snapshots = await state.everywhere()
            ages = {partition: state.positions_of({partition: of}) for partition, of in snapshots.items()}
            record = await state.releases(snapshots)
            used = record is None or record.in_use(app.name)
            return (*of_partitions(app.name, snapshots), freshness.metric(app.name, ages), in_use(app.name, used=used))
        except (StreamStateError, RedisError) as error:
            log.info("the state cannot be scraped now", reason=str(error))
            return ()

    telemetry.further(metrics)

    async def owners(request: Request) -> Response:
        known = await processors(app, state, freshness, views, telemetry.views_answered())
        if parse(MapQuery, request.query).memory:
            known.memory = await memory.read() if memory else None
        return json(known, settings.advertise)

    own, summary = entry(app), "The owners of the partitions, and the views"
    for path, name in ((PATH, "processors"), (own.path, own.name)):
        routes.add(path, name, owners, summary, Answer.like(EXAMPLE), query=of_struct(MapQuery))
    return routes, telemetry
