"""The deployable services, one folder each."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType


def modules(name: str) -> dict[str, ModuleType]:
    """The module `name` of each service that has one, by service, in alphabetical order."""
    folders = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    paths = {service: f"services.{service}.{name}" for service in folders}
    return {service: importlib.import_module(path) for service, path in paths.items() if importlib.util.find_spec(path)}
