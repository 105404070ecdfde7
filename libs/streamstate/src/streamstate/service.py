"""What a service declares in its folder, used by demo, charts, documents and the operators' command."""

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Topic:
    """A Kafka topic. `partitions`: None for the number that the demo gives to all topics."""

    name: str
    partitions: int | None = None
    compacted: bool = False


@dataclass(frozen=True)
class Service:
    """A service: the topics that it reads, and those that it writes apart from its dead-letter topic.

    any_instance: whether each instance of the API answers for any key; the APIs are then scaled apart from the streams.
    """

    inputs: tuple[Topic, ...]
    outputs: tuple[Topic, ...] = ()
    any_instance: bool = False


def paths(package: str, name: str) -> dict[str, str]:
    """Where the module `name` is of each service that has one, by service, in alphabetical order.

    `package` has a folder for each service, or is that of a single one. Raises `ModuleNotFoundError` without it.
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


def declared(module: ModuleType, name: str) -> Any:
    """The constant `NAME` of a service's module, or the function `name` that makes it of the service's settings."""
    return getattr(module, name.upper(), None) or getattr(module, name)
