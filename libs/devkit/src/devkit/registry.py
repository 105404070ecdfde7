"""The services: every folder of `services` with a `model.py`."""

from functools import cache

from streamstate import bootstrap
from streamstate.app import App

MODELS = bootstrap.service_paths("services", "model")
SERVICES = tuple(MODELS)
"""Their names, in alphabetical order."""

EXAMPLES = ("inventory", "words")
"""Services that run only on request."""

STANDARD = tuple(service for service in SERVICES if service not in EXAMPLES)


@cache
def app(service: str) -> App:
    """The app of `service`, with the settings of the environment. Raises `Misconfigured`."""
    app: App = bootstrap.declared(MODELS[service], "app")
    return app
