"""What every process that answers over HTTP tells of itself, whatever it answers: `/livez`, `/readyz`, `/metrics`."""

import time
from collections.abc import Awaitable, Callable

from apiflask import APIFlask
from prometheus_client import CONTENT_TYPE_LATEST

from streamstate.deployment import background
from streamstate.web.http.problems import not_ready
from streamstate.web.http.request import Request, Response, json
from streamstate.web.server import openapi
from streamstate.web.server.telemetry import Telemetry

PATHS = ("/livez", "/readyz", "/metrics")


def application(
    name: str,
    served_by: str,
    *,
    ready: Callable[[], Awaitable[None]],
    readiness: str,
    alive: Callable[[], None] = lambda: None,
) -> tuple[APIFlask, Telemetry]:
    """The application called `name` with these routes, and its counters.

    `ready` and `alive` raise a `Problem` when the process is not; `readiness` says in its document what ready means.
    """
    flask = openapi.application(name)
    telemetry = Telemetry(name)

    async def livez(_request: Request) -> Response:
        alive()
        if stuck := background.stuck(time.monotonic()):
            raise not_ready(f"{', '.join(stuck)} does not go on in the background; start this process again")
        return json({"status": "alive"}, served_by)

    async def readyz(_request: Request) -> Response:
        await ready()
        return json({"status": "ready"}, served_by)

    async def prometheus(_request: Request) -> Response:
        return Response(200, await telemetry.scrape(), {"Content-Type": CONTENT_TYPE_LATEST})

    openapi.route(flask, "/livez", "livez", livez, **openapi.of_process("The process runs"))
    openapi.route(flask, "/readyz", "readyz", readyz, **openapi.of_process(readiness))
    openapi.route(flask, "/metrics", "prometheus", prometheus, hide=True)
    return flask, telemetry
