"""The services: every folder of `services` with a `model.py`, and further profiles declared in YAML files.

A service is named by its folder or its file. It runs under the name of its app.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from devkit import DevkitError
from streamstate import bootstrap
from streamstate.app import App
from streamstate.profile import profile_app
from streamstate.profile.file import read

MODELS = bootstrap.service_paths("services", "model")
SERVICES = tuple(MODELS)
"""The folders, in alphabetical order."""

EXAMPLES = ("inventory", "words")
"""Services that run only on request."""

STANDARD = tuple(service for service in SERVICES if service not in EXAMPLES)


@cache
def app(service: str) -> App:
    """The app of `service`, with the settings of the environment. Raises `Misconfigured`."""
    app: App = bootstrap.declared(MODELS[service], "app") if service in MODELS else profile_app(read(Path(service)))
    return app


def release(chart: str) -> str:
    """The usual name of a release of `chart`: for a service, the name of its app."""
    return app(chart).name if chart in MODELS else chart


def by_name(services: Iterable[str]) -> Mapping[str, str]:
    """`services` by the names of their apps. Raises `DevkitError` for two services of one name or path."""
    found: dict[str, str] = {}
    paths: dict[str, str] = {}
    for service in services:
        name = app(service).name
        if name in found:
            msg = f"{found[name]} and {service} are both called {name}; give one another name"
            raise DevkitError(msg)
        found[name] = service
        for view in app(service).views:
            first = paths.setdefault(view.path, service)
            if first != service:
                msg = f"{first} and {service} both answer at {view.path}; give one another path"
                raise DevkitError(msg)
    return found
