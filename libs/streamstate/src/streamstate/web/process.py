"""What every process that answers over HTTP has, whatever it answers: problems, metrics, admission and its status."""

from collections.abc import Callable

from apiflask import APIFlask
from flask import Response

from streamstate.settings import HttpSettings
from streamstate.web import openapi, problems
from streamstate.web.admission import Admission
from streamstate.web.answers import json
from streamstate.web.telemetry import Telemetry


def application(
    name: str,
    settings: HttpSettings,
    served_by: str,
    *,
    ready: Callable[[], None],
    readiness: str,
    alive: Callable[[], None] = lambda: None,
) -> tuple[APIFlask, Telemetry]:
    """The application called `name`, with `/livez`, `/readyz` and `/metrics`, and its counters.

    `ready` and `alive` raise a `Problem` when the process is not; `readiness` says in its document what ready means.
    """
    flask = openapi.application(name)
    problems.install(flask)
    telemetry = Telemetry(name)
    telemetry.install(flask)
    Admission(settings.requests_in_flight, telemetry.refused).install(flask)

    @flask.get("/livez")
    @flask.doc(**openapi.of_process("The process runs"))
    def livez() -> Response:
        alive()
        return json({"status": "alive"}, served_by)

    @flask.get("/readyz")
    @flask.doc(**openapi.of_process(readiness))
    def readyz() -> Response:
        ready()
        return json({"status": "ready"}, served_by)

    return flask, telemetry
