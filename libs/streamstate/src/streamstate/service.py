"""The folder of a service: its modules and their declarations."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType
from typing import Any

from streamstate.errors import Misconfigured


def paths(package: str, name: str) -> dict[str, str]:
    """The path of the module `name` of each service that has such a module, by service, in alphabetical order.

    `package` has a folder for each service, or is the package of a single service. Raises `ModuleNotFoundError` without
    it.
    """
    folders = {package.rpartition(".")[2]: package}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if module.ispkg:
            folders[module.name] = f"{package}.{module.name}"
    modules = {service: f"{folder}.{name}" for service, folder in folders.items()}
    return {service: path for service, path in modules.items() if importlib.util.find_spec(path)}


def modules(package: str, name: str) -> dict[str, ModuleType]:
    """The modules at `paths`."""
    return {service: importlib.import_module(path) for service, path in paths(package, name).items()}


def find(path: str) -> ModuleType | None:
    """A module of a service, such as `services.metrics.model`; None when the service has no module of this name.

    Raises `Misconfigured` when there is no such service.
    """
    service = path.rpartition(".")[0]
    try:
        importlib.import_module(service)
        return importlib.import_module(path) if importlib.util.find_spec(path) else None
    except ModuleNotFoundError as error:
        if not f"{path}.".startswith(f"{error.name}."):
            # The module exists, and imports a missing module.
            raise
        msg = f"there is no package {service}; name one such as services.metrics, in a folder of PYTHONPATH"
        raise Misconfigured(msg) from error


def declared(path: str, name: str) -> Any:
    """The constant `NAME` of a service's module, or the function `name`, which makes the constant from the service's
    settings.

    Raises `Misconfigured` when there is neither.
    """
    module = find(path)
    for spelling in (name.upper(), name):
        if hasattr(module, spelling):
            return getattr(module, spelling)
    msg = f"{path} has neither {name.upper()} nor {name}(settings); declare one of them (docs/add-a-service.md)"
    raise Misconfigured(msg)
