"""The releases beside the services' own, from a file that `streamstate stage` writes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from services.gateway.routing.directory import BESIDE
from streamstate.errors import Misconfigured
from streamstate.releases import file
from streamstate.web.access.watched_file import signature

log = structlog.get_logger()


class ReleaseFile:
    """Adds the releases of the file at `path` to `addresses`; the file is read again after each change.

    addresses: of the services' own instances; `all` are these, unless dropped, and the releases of the file.
    """

    def __init__(self, addresses: Mapping[str, Sequence[str]], path: Path) -> None:
        self.all: dict[str, Sequence[str]] = dict(addresses)
        self._own = addresses
        self._path = path
        self._seen: object = None

    def look(self) -> None:
        """Read the file if it has changed. An unreadable file changes nothing."""
        try:
            seen: object = signature(self._path)
        except OSError:
            seen = None
        if seen == self._seen:
            return
        self._seen = seen
        try:
            found = file.read(self._path)
        except Misconfigured as error:
            log.warning("the file of releases cannot be read; the known releases stay", reason=str(error))
            return
        dropped = file.dropped(found)
        own = {service: at for service, at in self._own.items() if service not in dropped}
        beside = {
            f"{service}{BESIDE}{name}": [release.address]
            for service, name, release in file.beside(found)
            if service in self._own
        }
        for gone in self.all.keys() - own.keys() - beside.keys():
            del self.all[gone]
        self.all.update({**own, **beside})
