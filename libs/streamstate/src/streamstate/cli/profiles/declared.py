"""The profile of a file, over the topic of this environment."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from streamstate import bootstrap
from streamstate.app import App, Source
from streamstate.cli.services import configured
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.reading import read_to_end
from streamstate.processing.decode import RawRecord, raw_record
from streamstate.profile import SERVICE, profile_app
from streamstate.profile.declaration import Declaration
from streamstate.profile.file import located, read
from streamstate.profile.measure import BadDeclaration
from streamstate.settings import CommandSettings, StreamSettings, load

File = Annotated[Path, typer.Argument(metavar="FILE", help="YAML file of a profile.", show_default=False)]

Offsets = Mapping[int, int]
"""An offset of each partition."""


@dataclass(frozen=True)
class Declared:
    """A profile under the name, over the topic and in the format of this deployment."""

    declaration: Declaration
    settings: CommandSettings

    @classmethod
    def of(cls, path: Path, *, alone: bool = False) -> "Declared":
        """Raises `Misconfigured` with the line of the first fault of the file.

        alone: without the package of services.
        """
        return cls(read(path), load(CommandSettings) if alone else configured())

    def require_free_paths(self, path: Path) -> None:
        """Raise `Misconfigured` for a path of another service of the package. path: the file of the profile."""
        taken = dict(_paths(self.settings.package, self.app.name))
        for view in self.app.views:
            if service := taken.get(view.path):
                reason = f"the service {service} answers at {view.path}; write another path"
                raise located(BadDeclaration(reason, "path"), path, path.read_text())

    @cached_property
    def app(self) -> App:
        """Its app. Raises `Misconfigured`."""
        return bootstrap.deployed(profile_app(self.declaration), self.settings)

    @property
    def source(self) -> Source[Any, Any]:
        return self.app.sources[0]

    @property
    def latest(self) -> int:
        """The greatest accepted timestamp, in milliseconds."""
        return int(time.time() * 1_000) + self.tolerance_ms

    @cached_property
    def tolerance_ms(self) -> int:
        """The accepted milliseconds of a timestamp ahead of the clock."""
        return load(StreamSettings).tolerance_ms(None)

    @cached_property
    def topics(self) -> Topics:
        return bootstrap.topics(self.settings.kafka, self.settings.security)

    def bounds(self) -> tuple[Offsets, Offsets]:
        """The first offset and the end of each partition. Raises `Misconfigured` for a topic that does not exist."""
        topic = self.source.topic
        places = [(topic, partition) for partition in range(self.topics.describe([topic])[topic].partitions)]
        begins, ends = self.topics.begins(places), self.topics.ends(places)
        return {partition: begins[topic, partition] for _, partition in places}, {p: ends[topic, p] for _, p in places}

    def records(self, starts: Offsets) -> Iterator[tuple[int, RawRecord]]:
        """The partition and content of the records from `starts` to the present ends."""
        places = {(self.source.topic, partition): offset for partition, offset in starts.items()}
        for message in read_to_end(self.settings.kafka, places, self.settings.security):
            yield message.partition() or 0, raw_record(message, header_ids=self.source.header_ids)


def _paths(package: str, besides: str) -> Iterator[tuple[str, str]]:
    """The paths of the services of `package`, with the service, besides declared profiles and the app `besides`.

    Services that cannot be loaded here have none.
    """
    paths: Mapping[str, str] = {}
    with suppress(ImportError):
        paths = bootstrap.service_paths(package, "model")
    for service, path in paths.items():
        with suppress(ImportError, Misconfigured):
            app: App = bootstrap.declared(path, "app")
            if app.service != SERVICE and app.name != besides:
                yield from ((view.path, service) for view in app.views)
