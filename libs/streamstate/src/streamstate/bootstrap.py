"""The composition point of a process: logs, settings, the deployed app, and its servers.

A service is named by its package, such as `services.metrics`. Importing a module reads no environment variable and
opens no connection.
"""

import importlib
import importlib.util
import os
import pkgutil
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

from pydantic_settings import BaseSettings

from streamstate.app import App
from streamstate.deployment import logs, tracing
from streamstate.deployment.overrides import EventTimeSettings, bounded, renamed
from streamstate.erasure.topic import DeletionTopic
from streamstate.errors import Commands, Misconfigured
from streamstate.formats.applied import formatted
from streamstate.kafka.admin import Topics
from streamstate.kafka.history import TopicHistory
from streamstate.kafka.security import Security
from streamstate.processing.topic_settings import Finding, TopicCheck
from streamstate.releases.deployments import Deployments, Recorded
from streamstate.releases.footprint import Footprint, measured
from streamstate.releases.pointer import Pointer
from streamstate.settings import (
    PREFIX,
    ApiSettings,
    CommandSettings,
    ServiceSettings,
    StreamSettings,
    kinds,
    load,
    require_known,
)
from streamstate.state.deletion import StateDeleter
from streamstate.state.redis import RedisStore
from streamstate.state.redis_connections import NO_LOGIN, Client, Login, connect
from streamstate.state.redis_reader import RedisReader, open_commands
from streamstate.state.store import AsyncReads

S = TypeVar("S", bound=BaseSettings)

MISCONFIGURED = 3
"""Exit status. Gunicorn ends when a worker exits with this status, and restarts the worker after any other."""


@contextmanager
def exiting() -> Iterator[None]:
    """Exit with `MISCONFIGURED`, and the reason on stderr, when the body raises `Misconfigured`."""
    try:
        yield
    except Misconfigured as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(MISCONFIGURED) from error


def service_named(process: str) -> str:
    """The only argument of the command `python -m <process>`. Exits with the usage on other arguments."""
    parser = ArgumentParser(prog=f"python -m {process}")
    parser.add_argument("service", help="the package of the service, such as services.metrics")
    return str(parser.parse_args().service)


def service_paths(package: str, name: str) -> dict[str, str]:
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


def service_modules(package: str, name: str) -> dict[str, ModuleType]:
    """The modules at `service_paths`."""
    return {service: importlib.import_module(path) for service, path in service_paths(package, name).items()}


def service_module(path: str) -> ModuleType | None:
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


OWN_FILES = 0o077
"""The umask of all processes and commands: files of records and answers are their user's alone."""


def configure(kind: type[S], service: str = "") -> S:
    """Set up the process, and load the settings. Variables may be of any settings class that is imported.

    service: the deployed service, whose settings are imported.

    Raises `Misconfigured` for an invalid value, an unknown variable, or a missing package.
    """
    logs.configure()
    os.umask(OWN_FILES)
    if service:
        service_module(f"{service}.settings")
    require_known(os.environ)
    return load(kind)


def declared(path: str, name: str) -> Any:
    """The constant `NAME` of a service's module, or the result of its function `name` for the settings it declares.

    Raises `Misconfigured` for invalid settings, or without a declaration.
    """
    module = service_module(path)
    if hasattr(module, name.upper()):
        return getattr(module, name.upper())
    if not hasattr(module, name):
        msg = f"{path} has neither {name.upper()} nor {name}(settings); declare one of them (docs/add-a-service.md)"
        raise Misconfigured(msg)
    declaration = getattr(module, name)
    (kind,) = (hint for name, hint in get_type_hints(declaration).items() if name != "return")
    return declaration(load(kind))


def app(service: str, settings: ServiceSettings) -> App:
    """The app of a service under the name and over the topics of this deployment. Raises `Misconfigured`."""
    return deployed(declared(f"{service}.model", "app"), settings)


def deployed(app: App, settings: ServiceSettings) -> App:
    """`app` under the name, over the topics and in the formats of this deployment. Raises `Misconfigured`."""
    folder = str(settings.checkpoints / "schemas") if isinstance(settings, StreamSettings) else ""
    own = bounded(formatted(app, settings.formats, settings.schema_registry(folder)), settings)
    return renamed(own, settings.name, settings.topics, settings.group, settings.release_of)


def commands(app: App, *, stored: bool = True) -> Commands:
    """The operator's commands about `app`, with the variables of this process that the commands need.

    stored: whether its streams have stored `recorded`.
    """
    own = recorded(app).settings
    others = [name for name in map(str.upper, CommandSettings.model_fields) if name not in {*own, *_OF_PROCESS}]
    variables = {name: _given(name) for name in (*others, *([] if stored else own))}
    needed = {f"{PREFIX}{name}": value for name, value in variables.items() if value}
    return Commands(app.name if stored else app.service, needed)


_OF_PROCESS = ("ADVERTISE", "REDIS_TIMEOUT_S")
"""Settings that do not select the state that a command works on."""


def recorded(app: App) -> Recorded:
    """The service of `app`, and the variables of this process that make the app and its state."""
    of_service = (kind for kind in kinds() if kind.__module__.endswith(f".{app.service}.settings"))
    names = (
        *ServiceSettings.__annotations__,
        *EventTimeSettings.model_fields,
        *chain(*(k.model_fields for k in of_service)),
    )
    own = (name.upper() for name in names if name not in ("redis", "advertise"))
    return Recorded(app.service, {**{name: _given(name) for name in own}, **app.variables})


def _given(name: str) -> str | None:
    """The value of a variable without prefix, None where it is not set."""
    return {each.upper(): value for each, value in os.environ.items()}.get(f"{PREFIX}{name}")


def deployments(settings: CommandSettings | StreamSettings) -> Deployments:
    """The deployments of the Redis of `settings`."""
    return Deployments(client(settings))


def topics(kafka: str, security: Security) -> Topics:
    """Metadata and offsets of Kafka's topics."""
    return Topics(kafka, security=security)


def history(settings: ServiceSettings, topics: Topics) -> TopicHistory:
    """The records of Kafka, and of the archive, if there is one. Raises `Misconfigured` for an unusable archive."""
    if not settings.archive:
        return TopicHistory(topics)
    from streamstate.history.archive.files import Archive  # noqa: PLC0415, Arrow is not needed without an archive

    return TopicHistory(topics, Archive(settings.archive))


def topic_check(app: App, settings: StreamSettings) -> TopicCheck:
    """The check of the settings of the topics of `app`."""
    graces = {topic: fold.settings.get("grace_ms") for fold in app.folds for topic in fold.topics}
    tolerances = {topic: settings.tolerance_ms(grace) for topic, grace in graces.items()}
    return TopicCheck(app, tolerances, settings.deletions, settings.kafka)


def topic_findings(app: App, topics: Topics, settings: StreamSettings) -> list[Finding]:
    """The wrong settings of the topics of `app`."""
    check = topic_check(app, settings)
    return check.findings(topics.settings(check.topics))


def deletions(settings: ServiceSettings, topics: Topics) -> DeletionTopic | None:
    """The topic of the deletions of users, None where there is none."""
    return DeletionTopic(settings.deletions, topics) if settings.deletions else None


def store(redis: str, timeout_s: float, app: str, login: Login = NO_LOGIN) -> RedisStore:
    """The state of the app of this name, for threads."""
    return store_over(connect(redis, timeout_s, login), app)


def client(settings: ApiSettings | CommandSettings | StreamSettings) -> Client:
    """A client of Redis, for threads."""
    return connect(settings.redis, settings.redis_timeout_s, settings.redis_login)


def pointer(settings: CommandSettings | StreamSettings, app: App) -> Pointer:
    """The record of the releases of the service of `app`."""
    return Pointer(client(settings), app.release_of)


def footprint(settings: CommandSettings | ApiSettings, app: str) -> Footprint:
    """The memory of the state of the app of this name, and the memory left in its Redis."""
    return measured(client(settings), app)


def store_over(client: Client, app: str) -> RedisStore:
    """The state of the app of this name, over an open client."""
    return RedisStore(client, app)


def deletion(settings: CommandSettings, app: str) -> StateDeleter:
    """The deleter of the state of the app of this name."""
    return StateDeleter(client(settings), app)


def reads(settings: ApiSettings, app: App) -> AsyncReads:
    """The state of `app`, for an event loop. The first read connects."""
    wait, login = settings.redis_timeout_s, settings.redis_login
    commands = open_commands(settings.redis, wait, login, replicas=settings.redis_replicas)
    reader, spans = RedisReader(commands, app.name), tracing.spans(app.name)
    return reader if spans is None else spans.reads(reader)
