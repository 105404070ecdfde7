"""The services of a command, as deployed by this environment, and their gateway."""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Annotated

import redis
import typer

from streamstate import bootstrap
from streamstate.app import App
from streamstate.deployment import logs
from streamstate.errors import Commands, Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.history import TopicHistory
from streamstate.processing.topic_settings import Finding
from streamstate.releases.command_lock import CommandLock, command_lock
from streamstate.releases.deployments import Recorded
from streamstate.releases.pointer import Pointer
from streamstate.settings import PREFIX, CommandSettings, StreamSettings, UserSettings, load, require_known
from streamstate.state.redis import RedisStore
from streamstate_client import Client


def _beginning(incomplete: str) -> list[str]:
    """The services with names that begin with `incomplete`, for shell completion."""
    with suppress(ModuleNotFoundError, Misconfigured):
        return [
            name
            for name in bootstrap.service_paths(load(CommandSettings).package, "model")
            if name.startswith(incomplete)
        ]
    return []


Service = Annotated[str, typer.Argument(help="Name of its folder.", autocompletion=_beginning)]
Services = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERVICE", help="Default: all that run or have a state.", autocompletion=_beginning),
]


@contextmanager
def environment(settings: Mapping[str, str | None]) -> Iterator[None]:
    """The environment with `settings` (without prefix) in the body, without those that are None."""
    before = dict(os.environ)
    os.environ.update({f"{PREFIX}{name}": text for name, text in settings.items() if text is not None})
    for name in (name for name, text in settings.items() if text is None):
        os.environ.pop(f"{PREFIX}{name}", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass(frozen=True)
class Deployment:
    """A service under the name and over the topics of this deployment, by its folder and the parent package.

    own: settings besides the environment, without prefix; None: unset. stored: whether its streams have stored them.
    """

    service: str
    package: str
    settings: CommandSettings
    own: Mapping[str, str | None] = field(default_factory=dict)
    stored: bool = False

    @cached_property
    def app(self) -> App:
        """Its app. Raises `Misconfigured`."""
        imported(f"{self.package}.model")
        with environment(self.own):
            return bootstrap.app(self.package, self.settings)

    @cached_property
    def commands(self) -> Commands:
        """Its commands for operators, in printed form."""
        with environment(self.own):
            return bootstrap.commands(self.app, stored=self.stored)

    @cached_property
    def streams(self) -> StreamSettings:
        """The settings of its streams. Raises `Misconfigured`."""
        with environment(self.own):
            return load(StreamSettings)

    @cached_property
    def store(self) -> RedisStore:
        return bootstrap.store_over(bootstrap.client(self.settings), self.app.name)

    @cached_property
    def topics(self) -> Topics:
        return bootstrap.topics(self.settings.kafka, self.settings.security)

    @cached_property
    def history(self) -> TopicHistory:
        """The records of its topics in Kafka and in the archive. Raises `Misconfigured`."""
        return bootstrap.history(self.settings, self.topics)

    def findings(self) -> list[Finding]:
        """The wrong settings of its topics."""
        return bootstrap.topic_findings(self.app, self.topics, self.streams)

    @property
    def chosen(self) -> bool:
        """Whether it is a release by its name, not the live release of its service."""
        by_name = self.app.name != self.app.release_of
        return by_name if self.stored else bool(self.settings.name or self.settings.release_of)

    @cached_property
    def pointer(self) -> Pointer:
        """The record of its releases."""
        return Pointer(bootstrap.client(self.settings), self.app.release_of)

    def locked(self, command: str) -> AbstractContextManager[CommandLock]:
        """The lock of its service for `command`, such as `reset`. Raises `Declined` while another command has it."""
        return command_lock(bootstrap.client(self.settings), self.app.release_of, command)

    def release(self, name: str) -> "Deployment":
        """The deployment of a release of the same service, over the same topics."""
        first = self.app.release_of
        own = {"name": name, "release_of": "" if name == first else first, "group": ""}
        return self if name == self.app.name else replace(self, settings=self.settings.model_copy(update=own))


def configured() -> CommandSettings:
    """The settings of the command; logs go to stderr. Raises `Misconfigured`."""
    logs.configure("stderr")
    settings = load(CommandSettings)
    # The settings of the services are defined where their package is imported.
    imported(settings.package)
    require_known(os.environ)
    return settings


def deployments(settings: CommandSettings, services: Sequence[str] | None = None) -> list[Deployment]:
    """`services`, or all: as their streams have stored them, and services of the code by the environment otherwise.

    With a NAME in the environment, services of the code are by the environment. Raises `Misconfigured`, and typer's
    error for an unknown name.
    """
    known = packages(settings)
    if not services and settings.name and len(known) > 1:
        msg = f"STREAMSTATE_NAME={settings.name} names a single deployment, and there are {', '.join(known)}: name one"
        raise Misconfigured(msg)
    given = {name: Deployment(name, package, settings) for name, package in known.items()}
    if not services:
        found = {} if settings.name else stored(settings)
        return [*found.values(), *(of for of in given.values() if of.app.name not in found)]
    try:
        found = stored(settings, [name for name in services if not (settings.name and name in known)])
        others = "" if {*services} <= {*given, *found} else ", ".join(["", *sorted(stored(settings).keys() - known)])
    except (redis.ConnectionError, redis.TimeoutError) as error:
        found, others = {}, f", and perhaps others in Redis, which does not answer ({error})"
    if unknown := [name for name in services if name not in {*given, *found}]:
        msg = f"there is no service {', '.join(unknown)}; there are {', '.join(given)}{others}"
        raise typer.BadParameter(msg)
    return [found.get(name) or given[name] for name in services]


def packages(settings: CommandSettings) -> dict[str, str]:
    """The packages of the services of the code, by folder. Raises `Misconfigured` where there are none."""
    paths = bootstrap.service_paths(settings.package, "model")
    if not paths:
        msg = f"{settings.package} has no service with a model.py; set STREAMSTATE_PACKAGE to the package of services"
        raise Misconfigured(msg)
    return {name: path.rpartition(".")[0] for name, path in paths.items()}


def stored(settings: CommandSettings, names: Sequence[str] | None = None) -> dict[str, Deployment]:
    """The deployments of these names, or all, as stored in Redis."""
    deployments = bootstrap.deployments(settings)
    read = deployments.all() if names is None else {name: deployments.read(name) for name in names}
    found = {name: by_record(settings, name, recorded) for name, recorded in read.items() if recorded}
    return {name: of for name, of in found.items() if of}


def by_record(settings: CommandSettings, name: str, recorded: Recorded) -> Deployment | None:
    """The deployment as recorded; None, and a line on stderr, without the code of its service."""
    package = packages(settings).get(recorded.service)
    if package is None:
        place = f"the package {settings.package} has no {recorded.service}: set STREAMSTATE_PACKAGE to its package"
        typer.echo(f"streamstate: {name} is left out, since {place}", err=True)
        return None
    with environment(recorded.settings):
        given = load(CommandSettings)
    own = (each.lower() for each in recorded.settings if each.lower() in CommandSettings.model_fields)
    settings = settings.model_copy(update={each: getattr(given, each) for each in own})
    return Deployment(recorded.service, package, settings, recorded.settings, stored=True)


def deployment(service: str) -> Deployment:
    """The deployment of `service`, by the settings of the environment. Raises as `configured` and `deployments` do."""
    [single] = deployments(configured(), [service])
    return single


def gateway() -> Client:
    """A client of the gateway that the environment names. Raises `Misconfigured`."""
    with suppress(Misconfigured):
        # Where services are installed, their settings are known.
        imported(load(CommandSettings).package)
    require_known(os.environ)
    settings = load(UserSettings)
    return Client(settings.gateway, settings.gateway_key.get_secret_value())


def imported(module: str) -> ModuleType:
    """The module. Raises `Misconfigured` when it, or a package that it imports, is not installed here."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = f"the package {error.name} is not installed here"
        # The package of the services, or a package that a service imports.
        reason = missing if f"{module}.".startswith(f"{error.name}.") else f"{missing}, and {module} imports it"
        msg = (
            f"{reason}; run the command in the image of the service or in the project's folder, or set "
            "STREAMSTATE_PACKAGE to the package of your services"
        )
        raise Misconfigured(msg) from error
