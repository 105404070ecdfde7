"""The deployable services, one folder each."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType
from typing import Any


def modules(name: str) -> dict[str, ModuleType]:
    """The module `name` of each service that has one, by service, in alphabetical order."""
    folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    paths = {service: f"services.{service}.{name}" for service in folders}
    return {service: importlib.import_module(path) for service, path in paths.items() if importlib.util.find_spec(path)}


def declared(module: ModuleType, name: str) -> Any:
    """The constant `NAME` of a service's module, or the function `name` that makes it of the service's settings."""
    return getattr(module, name.upper(), None) or getattr(module, name)


# Services may share an environment: the settings of all are defined, so that only other names are refused.
modules("settings")
