"""The deployable services, one folder each."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType


def modules(name: str) -> dict[str, ModuleType]:
    """The module `name` of each service that has one, by service, in alphabetical order."""
    paths = {found.name: f"services.{found.name}.{name}" for found in pkgutil.iter_modules(__path__) if found.ispkg}
    return {service: importlib.import_module(path) for service, path in paths.items() if importlib.util.find_spec(path)}
