"""Who owns which partition of which service, and which paths a service answers: read from the instances, kept fresh."""

import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

from streamstate.web.client import Instances, Unreachable
from streamstate.web.deadline import Deadline
from streamstate.web.problems import Problem, bad_query, not_ready
from streamstate.web.processors import PATH, Processors, ViewEntry

log = structlog.get_logger()

_decode = msgspec.json.Decoder(Processors).decode


@dataclass(frozen=True)
class ServiceMap:
    """One service as one of its instances described it."""

    processors: Processors
    owners: Mapping[int, str]
    patterns: Sequence[tuple[re.Pattern[str], ViewEntry]]

    @classmethod
    def of(cls, processors: Processors) -> "ServiceMap":
        owners = {one.partition: one.owner for one in processors.partitions if one.owner is not None}
        patterns = [(_pattern(view.path), view) for view in processors.views]
        return cls(processors, owners, patterns)

    def view(self, name: str) -> ViewEntry:
        """The view called `name`; raises KeyError where there is none."""
        return {view.name: view for view in self.processors.views}[name]


def _pattern(path: str) -> re.Pattern[str]:
    before, found, after = path.partition("<key>")
    return re.compile(f"{re.escape(before)}({'[^/]+' if found else ''}){re.escape(after)}", re.DOTALL)


@dataclass
class Owners:
    """The maps of all services. The last one known serves until a newer one is had. Safe for threads.

    addresses: the instances of each service, host:port.
    ttl_s: seconds between two looks.
    deadline_s: seconds for one look.
    """

    addresses: Mapping[str, Sequence[str]]
    client: Instances
    ttl_s: float
    deadline_s: float
    _maps: dict[str, ServiceMap] = field(default_factory=dict)
    _wake: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Look now and then, in the background, for as long as the process lives."""
        threading.Thread(target=self._keep_fresh, name="owners", daemon=True).start()

    def service(self, name: str) -> ServiceMap:
        """The map of `name`; raises a 503 `Problem` when none of its instances ever answered."""
        found = self._maps.get(name) or self._look(name)
        if found is None:
            raise not_ready(f"no instance of {name} answers")
        return found

    def find(self, path: str) -> tuple[str, ViewEntry, str]:
        """Service, view and key text of `path`; raises a 404 `Problem` when no service answers such a path."""
        for service, known in self._candidates():
            for pattern, view in known.patterns:
                if match := pattern.fullmatch(path):
                    return service, view, match[1]
        raise Problem(404, "not-found", "no service answers this path; see /openapi.json for those that there are")

    def by_service(self, asked: Iterable[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
        """(View name, key text) by the service that has the view; raises a 400 `Problem` for a view that none has."""
        places: dict[str, list[tuple[str, str]]] = {}
        for name, text in asked:
            places.setdefault(self._home(name), []).append((name, text))
        return places

    def views(self) -> list[str]:
        """The names of all views that `/v1/many` knows."""
        return [view.name for known in self._maps.values() for view in known.processors.views if not view.anywhere]

    def _home(self, name: str) -> str:
        for service, known in self._candidates():
            if any(view.name == name and not view.anywhere for view in known.processors.views):
                return service
        raise bad_query(self.views())

    def _candidates(self) -> Iterator[tuple[str, ServiceMap]]:
        """The services that are known, then those that are not yet; raises a 503 `Problem` when some stay unknown."""
        yield from list(self._maps.items())
        for service in self.missing():
            if found := self._look(service):
                yield service, found
        if missing := self.missing():
            raise not_ready(f"no instance answers of: {', '.join(missing)}")

    def others(self, service: str, owner: str | None) -> list[str]:
        """The instances of `service` apart from `owner`."""
        return [address for address in self.addresses.get(service, ()) if address != owner]

    def document(self, service: str, path: str) -> bytes:
        """What the first instance of `service` that answers has at `path`, empty when none does."""
        for address in self.addresses.get(service, ()):
            try:
                answer = self.client.get(address, path, Deadline(time.monotonic() + self.deadline_s))
                if answer.status == 200:
                    return answer.body
            except (Unreachable, Problem) as error:
                log.info("an instance does not answer", service=service, address=address, reason=str(error))
        return b""

    def look_again(self) -> None:
        """A map turned out to be old: look now."""
        self._wake.set()

    def missing(self) -> list[str]:
        """The services of which no map is known."""
        return [service for service in self.addresses if service not in self._maps]

    def _keep_fresh(self) -> None:
        while True:
            self._wake.clear()
            for service in self.addresses:
                self._look(service)
            self._wake.wait(self.ttl_s)

    def _look(self, service: str) -> ServiceMap | None:
        if body := self.document(service, PATH):
            try:
                self._maps[service] = ServiceMap.of(_decode(body))
            except msgspec.MsgspecError as error:
                log.warning(
                    "the map of a service cannot be read; do the versions differ?", service=service, reason=str(error)
                )
        return self._maps.get(service)
