"""The live releases of all services at one moment, their views and their owners: pinned for a request."""

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

from streamstate.keys import CODECS, partition_of
from streamstate.view import READ, Part
from streamstate.web.http.problems import Problem, bad_query, not_ready
from streamstate.web.partition_map import Processors, ViewEntry

BESIDE = "@"
"""In the name of a deployment, between its service and its release: `metrics@metrics-2` is beside `metrics`."""


def service_of(deployment: str) -> str:
    return deployment.partition(BESIDE)[0]


class ServiceMap:
    """A release of a service, as described by an instance.

    deployment: its name among the addresses. owners: addresses by partition. views: by name. positions: the next
    offsets by topic and partition.
    """

    def __init__(self, deployment: str, processors: Processors) -> None:
        partitions = processors.partitions
        self.deployment = deployment
        self.service = service_of(deployment)
        self.processors = processors
        self.owners = {held.partition: held.owner for held in partitions if held.owner is not None}
        self.views = {view.name: view for view in processors.views}
        self.positions = {
            (topic, held.partition): position for held in partitions for topic, position in held.positions.items()
        }

    def partition(self, view: ViewEntry, text: str) -> int:
        """The partition of the key `text`. Raises `BadKey` for text that is no key of `view`."""
        codec = CODECS[view.key]
        return partition_of(codec.encode(codec.parse(text)), self.processors.topics[view.topic], view.partitioner)


Located = tuple[ServiceMap, ViewEntry]
"""A view and its service."""


class LocatedPart(NamedTuple):
    """A part of the answer about a user: its service, its view, and the view's declaration."""

    known: ServiceMap
    view: ViewEntry
    part: Part


def live(deployments: Sequence[str], maps: Mapping[str, ServiceMap]) -> ServiceMap | None:
    """The map of the live release among the `deployments` of one service; None while it is unknown.

    The newest record of the releases decides. Without a record, the service's own deployment is the only release.
    """
    known = [maps[deployment] for deployment in deployments if deployment in maps]
    newest = max((each.processors for each in known), key=lambda of: of.switches, default=None)
    if newest is None or not newest.live:
        return next((each for each in known if BESIDE not in each.deployment), None)
    return next((each for each in known if each.processors.service == newest.live), None)


class Directory:
    """The live release of each service among the known maps. Does not change.

    maps: the live release by service. views: of all services, in the order of `services`.
    parts: the parts of `/v1/users/{id}` by name, the required part first.
    keyed: the services of the views of `/v1/many`, by the view's name.
    """

    def __init__(
        self, deployments: Iterable[str], maps: Mapping[str, ServiceMap], asked: ServiceMap | None = None
    ) -> None:
        """asked: a release in place of its service's live one."""
        by_service: dict[str, list[str]] = {}
        for deployment in deployments:
            by_service.setdefault(service_of(deployment), []).append(deployment)
        self.services = [*by_service]
        found = {service: live(names, maps) for service, names in by_service.items()}
        if asked:
            found[asked.service] = asked
        self.maps = {service: known for service, known in found.items() if known}
        self.views: Sequence[Located] = [(known, view) for known in self.maps.values() for view in known.views.values()]
        self.keyed: Mapping[str, ServiceMap] = {view.name: known for known, view in self.views if not view.anywhere}
        # The map of each release has a path of its own.
        others = [(known, known.processors.views[0]) for known in maps.values() if known.processors.views]
        self._by_path = {view.path: (known, view) for known, view in (*others, *self.views)}
        self._key_places: dict[int, set[int]] = {}
        for path in self._by_path:
            segments = path.split("/")
            places = self._key_places.setdefault(len(segments), set())
            places.update(place for place, segment in enumerate(segments) if segment == "<key>")
        parts = [LocatedPart(of, view, view.part) for of, view in self.views if view.part and view.scope == READ]
        parts.sort(key=lambda located: not located.part.required)
        self.parts: Mapping[str, LocatedPart] = {located.view.name: located for located in parts}

    @cached_property
    def clashes(self) -> Set[tuple[str, str, str]]:
        """The paths of two services: the path, the service that answers, and a service that does not."""
        answering = {view.path: known.service for known, view in self.views}
        return {
            (view.path, answering[view.path], known.service)
            for known, view in self.views
            if answering[view.path] != known.service
        }

    @cached_property
    def silent_since(self) -> str:
        """The earliest time from which on Kafka has not answered an instance (ISO 8601); empty while Kafka answers."""
        times = [known.processors.silent_since for known in self.maps.values()]
        return min(filter(None, times), default="")

    def missing(self) -> list[str]:
        """The services without a known map."""
        return [service for service in self.services if service not in self.maps]

    def absent(self, problem: Problem) -> Problem:
        """The `problem` of an unknown name; a 503 `Problem` while a missing service may know the name."""
        return unknown(", ".join(missing)) if (missing := self.missing()) else problem

    def service(self, name: str) -> ServiceMap:
        """The map of the service `name`; raises a 503 `Problem` before its first answer."""
        if name not in self.maps:
            raise unknown(name)
        return self.maps[name]

    def with_keys(self, view: str) -> ServiceMap:
        """The service whose owners answer `view` by key; raises a 400 `Problem` for an unknown view."""
        if view not in self.keyed:
            raise self.absent(bad_query(self.keyed))
        return self.keyed[view]

    def all_with_keys(self, views: Iterable[str]) -> Mapping[str, ServiceMap]:
        """The service that answers each of `views` by key; raises a 404 `Problem` that names views of no service."""
        views = [*views]
        if absent := ", ".join(view for view in views if view not in self.keyed):
            detail = f"no service answers {absent}; deploy it, or name it to the gateway"
            raise self.absent(Problem(404, "not-found", detail))
        return {view: self.keyed[view] for view in views}

    def over_all_keys(self, path: str) -> Located | None:
        """Service and view at `path`, where the view has no key; None for another path."""
        located = self._by_path.get(path)
        return located if located and not located[1].key else None

    def find(self, path: str) -> tuple[ServiceMap, ViewEntry, str]:
        """Service, view and key text of the percent-encoded `path`. Raises a 404 `Problem` for an unknown path."""
        # Counted first: the cost of a look-up does not grow with the segments of an unknown path.
        if places := self._key_places.get(path.count("/") + 1):
            segments = path.split("/")
            for place in sorted(places):
                template = "/".join([*segments[:place], "<key>", *segments[place + 1 :]])
                if segments[place] and (located := self._by_path.get(template)):
                    return *located, unquote(segments[place])
        if located := self._by_path.get(path):
            return *located, ""
        raise self.absent(not_found())


def unknown(service: str) -> Problem:
    return not_ready(f"no instance of {service} answers")


def not_found() -> Problem:
    return Problem(404, "not-found", "no service answers this path; see /openapi.json for those that there are")
