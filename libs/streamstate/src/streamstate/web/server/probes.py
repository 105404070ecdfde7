"""The own routes of every HTTP process: `/livez`, `/readyz`, `/metrics`, `/docs`."""

import time
from collections.abc import Awaitable, Callable, Iterable
from importlib import resources

from prometheus_client import CONTENT_TYPE_LATEST

from streamstate.deployment import background
from streamstate.view import READ
from streamstate.web.http.problems import Problem, not_ready
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server import responses
from streamstate.web.server.openapi import Routes
from streamstate.web.server.responses import Answer
from streamstate.web.server.static import static
from streamstate.web.server.telemetry import Telemetry

METRICS_PATH = "/metrics"
OPEN = ("/livez", "/readyz")
"""Paths answered without a credential."""

PATHS = (*OPEN, METRICS_PATH)

ALIVE, READY = {"status": "alive"}, {"status": "ready"}


def application(
    name: str,
    served_by: str,
    ready: Callable[[], Awaitable[None]],
    further: Iterable[Problem] = (),
    silent_since: Callable[[], str] = str,
) -> tuple[Routes, Telemetry]:
    """The own routes of the process called `name`, open to further routes, and its metrics.

    `ready` raises a `Problem` when the process is not ready; `further` are examples of the problems of this kind of
    process only. `silent_since` is the time from which on Kafka has not answered, empty while it does: the process
    stays ready, as reads need no Kafka.
    """
    routes, telemetry = Routes(name, [*responses.problems(), *further]), Telemetry(name)
    routes.open_paths.update(OPEN)

    async def livez(_request: Request) -> Response:
        if stuck := background.stuck(time.monotonic()):
            raise not_ready(f"{', '.join(stuck)} is stuck in the background; restart the process")
        return json(ALIVE, served_by)

    async def readyz(_request: Request) -> Response:
        await ready()
        silence = {"kafka": f"has not answered since {since}"} if (since := silent_since()) else {}
        return json({**READY, **silence}, served_by)

    async def prometheus(_request: Request) -> Response:
        return Response(200, await telemetry.scrape(), {"Content-Type": CONTENT_TYPE_LATEST})

    routes.add("/livez", "livez", livez, "The process runs", Answer.like(ALIVE))
    routes.add("/readyz", "readyz", readyz, "The process is ready to answer", Answer.like(READY))
    routes.hidden(METRICS_PATH, "prometheus", prometheus)
    swagger = resources.files("flask_swagger_ui") / "dist"
    own = (resources.files(__package__) / "docs").iterdir()
    docs = static([*own, swagger / "swagger-ui.css", swagger / "swagger-ui-bundle.js"])
    routes.hidden("/docs", "docs", docs, READ)
    routes.hidden("/docs/<name>", "docs-file", docs, READ)
    return routes, telemetry
