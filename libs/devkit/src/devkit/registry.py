"""The services that there are: every folder of `services` with a `service.py`."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping

import services
from streamstate.service import Service, Topic


def _registered() -> Mapping[str, Service]:
    names = [found.name for found in pkgutil.iter_modules(services.__path__) if found.ispkg]
    modules = {name: f"services.{name}.service" for name in names}
    return {
        name: importlib.import_module(module).SERVICE
        for name, module in modules.items()
        if importlib.util.find_spec(module)
    }


SERVICES = _registered()
"""By name, in alphabetical order."""


def topics() -> Mapping[str, Topic]:
    """The topics that all of them read and write, by name, dead letters included."""
    declared = [topic for service in SERVICES.values() for topic in (*service.inputs, *service.outputs)]
    dead_letters = [Topic(f"{name}-dlq") for name in SERVICES]
    return {topic.name: topic for topic in [*declared, *dead_letters]}
