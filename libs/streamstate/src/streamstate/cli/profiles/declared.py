"""The profile of a file, over the topic of this environment."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from streamstate import bootstrap
from streamstate.app import App, Source
from streamstate.cli.services import configured, environment, imported
from streamstate.deployment import logs
from streamstate.errors import Misconfigured
from streamstate.formats.reading import FormatDecoder
from streamstate.kafka.admin import Topics
from streamstate.kafka.reading import read_to_end
from streamstate.keys import partition_of
from streamstate.processing.decode import RawRecord, raw_record
from streamstate.processing.topic_settings import Finding
from streamstate.profile import SERVICE, profile_app
from streamstate.profile.declaration import Declaration
from streamstate.profile.file import located, read
from streamstate.profile.measure import BadDeclaration
from streamstate.settings import CommandSettings, StreamSettings, load

File = Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]

_ROOT = "/v1/"
"""The beginning of the paths at which the gateway asks services."""

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
        """Raise `Misconfigured`, with a free path, for a path of the gateway or of another service of the package.

        path: the file of the profile.
        """
        taken = [*_taken(self.settings.package, self.app.name)]
        if reason := _clash(self.declaration, taken):
            named = (msgspec.structs.replace(self.declaration, path=other) for other in _others(self.declaration))
            free = next(each.path for each in named if not _clash(each, taken))
            reason = f"{reason}; write another path, such as {free}"
            raise located(BadDeclaration(reason, "path"), path, path.read_text())

    @cached_property
    def app(self) -> App:
        """Its app. Raises `Misconfigured`."""
        return bootstrap.deployed(profile_app(self.declaration), self.settings)

    @property
    def source(self) -> Source[Any, Any]:
        """The declared topic, decoded to the events."""
        own, *others = self.app.sources
        if not others:
            return own
        (read,) = others
        decode = read.decode
        if isinstance(decode, FormatDecoder):
            return replace(read, times=own.times, decode=replace(decode, decode=KeyedEvents(decode.decode, own.decode)))
        return replace(read, times=own.times, decode=KeyedEvents(decode, own.decode))

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

    def findings(self) -> list[Finding]:
        """The wrong settings of its topics."""
        return bootstrap.topic_findings(self.app, self.topics, load(StreamSettings))

    def bounds(self) -> tuple[Offsets, Offsets]:
        """The first offset and the end of each partition. Raises `Misconfigured` for a topic that does not exist."""
        topic = self.source.topic
        places = [(topic, partition) for partition in range(self.topics.describe([topic])[topic].partitions)]
        begins, ends = self.topics.begins(places), self.topics.ends(places)
        return {partition: begins[topic, partition] for _, partition in places}, {p: ends[topic, p] for _, p in places}

    def keyed(self, begins: Offsets, read: Sequence[int]) -> Iterator[tuple[int, RawRecord]]:
        """The partition and content of the records in the partitions `read`, with the profile's keys."""
        if not self.declaration.key_field:
            yield from self.records({partition: begins[partition] for partition in read})
            return
        offsets: Counter[int] = Counter()
        for _, (_, timestamp, _, value) in self.records(begins):
            keyed = None
            with suppress(Exception):
                keyed = self.app.sources[-1].decode(None, value)
            if keyed and (partition := partition_of(keyed.key, len(begins))) in read:
                yield partition, (offsets[partition], timestamp, *keyed)
                offsets[partition] += 1

    def records(self, starts: Offsets) -> Iterator[tuple[int, RawRecord]]:
        """The partition and content of the records from `starts` to the present ends."""
        places = {(self.source.topic, partition): offset for partition, offset in starts.items()}
        for message in read_to_end(self.settings.kafka, places, self.settings.security):
            yield message.partition() or 0, raw_record(message, header_ids=self.source.header_ids)


@dataclass(frozen=True)
class KeyedEvents:
    """Decodes the event of a value; key: reads its key."""

    key: Callable[[Any, bytes | None], Any]
    event: Callable[[Any, bytes | None], Any]

    def __call__(self, _key: Any, value: bytes | None) -> Any:
        return None if self.key(None, value) is None else self.event(None, value)


Taken = tuple[re.Pattern[str], str]
"""The paths that a service answers, and its name."""


def _taken(package: str, besides: str) -> Iterator[Taken]:
    """The paths of the services of `package`, with the gateway, besides declared profiles and the app `besides`.

    Services that cannot be loaded here have none.
    """
    for service, path in _modules(package, "model"):
        with suppress(ImportError, Misconfigured):
            app: App = bootstrap.declared(path, "app")
            if app.service != SERVICE and app.name != besides:
                yield from ((re.compile(view.path.replace("<key>", "[^/]+")), service) for view in app.views)
    # The server of the gateway, and of a service with routes of its own; no server connects before a request.
    with environment({"ACCESS": "off"}):
        for service, path in _modules(package, "api"):
            with suppress(ImportError, Misconfigured):
                routes = imported(path).create().flask.table.values()
                yield from ((route.pattern, service) for route in routes if "<path:" not in route.path)
    logs.configure("stderr")


def _modules(package: str, name: str) -> Iterator[tuple[str, str]]:
    with suppress(ImportError):
        yield from bootstrap.service_paths(package, name).items()


def _clash(declared: Declaration, taken: Sequence[Taken]) -> str:
    """The reason why the gateway does not answer by the profile at one of its paths; empty where it does."""
    for path in (view.path for view in profile_app(declared).views):
        if not path.startswith(_ROOT):
            return f"the gateway answers no path but below {_ROOT}"
        if service := next((name for pattern, name in taken if pattern.fullmatch(path.replace("<key>", "1"))), ""):
            return f"the service {service} answers at {path}"
    return ""


def _others(declared: Declaration) -> Iterator[str]:
    """Other paths for a profile; the last one is free."""
    around, _, last = declared.path.rpartition("/")
    if not declared.path.startswith(_ROOT):
        yield f"/v1{declared.path}"
    yield f"{declared.path if last == '<key>' else around}/{declared.name}"
    yield f"{_ROOT}{declared.name}-profile{'' if declared.everywhere else '/<key>/measures'}"
