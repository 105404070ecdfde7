"""The route of a key, step by step."""

from collections.abc import Iterable

import msgspec

from services.gateway.routing.owners import Owners
from streamstate.errors import BadKey
from streamstate.keys import CODECS, MURMUR2, PARTITIONERS, partition_of
from streamstate.web.http.problems import Problem
from streamstate.web.partition_map import Partition, Processors, ViewEntry

_MOST = 2**31 - 1


class ViewRoute(msgspec.Struct, rename="camel"):
    """The route of a key in a view.

    `key_bytes`: the key in Kafka, in hexadecimal digits. `hash`: of the bytes by the topic's `partitioner`, a positive
    number. `partition`: the remainder by `partitions`, the topic's count. `owner`: null without an owner. `lag`:
    records of the topic missing in the state, as last seen by an instance; 0 before.
    """

    view: str
    topic: str
    key: str
    key_bytes: str
    hash: int
    partitions: int
    partition: int
    anywhere: bool
    owner: str | None
    epoch: int
    ready: bool
    lag: int
    partitioner: str = MURMUR2


class Route(msgspec.Struct, rename="camel"):
    """The views of a service with the key, and the route in each view."""

    service: str
    text: str
    views: list[ViewRoute]


_EXAMPLE_VIEW = ViewRoute(
    view="metrics",
    topic="listening-events",
    key="long",
    key_bytes="000000000000002a",
    hash=506_863_552,
    partitions=6,
    partition=4,
    anywhere=False,
    owner="metrics-1:8101",
    epoch=7,
    ready=True,
    lag=0,
)
EXAMPLE_ROUTE = Route("metrics", "42", [_EXAMPLE_VIEW])
"""For the document."""


def route(owners: Owners, service: str, text: str) -> Route:
    """The route by the present owner map.

    Raises `BadKey` for a text that is no key of any view of `service`, a 404 `Problem` for an unknown service.
    """
    if service not in owners.now.services:
        raise unknown_service(owners.now.services)
    processors = owners.now.service(service).processors
    routes, refused = [], BadKey(f"{service} answers for no key")
    for view in processors.views:
        if view.topic:
            try:
                routes.append(_view_route(view, text, processors))
            except BadKey as error:
                refused = error
    if not routes:
        raise refused
    return Route(service, text, routes)


def unknown_service(services: Iterable[str]) -> Problem:
    return Problem(404, "unknown-service", f"the services are: {', '.join(services)}")


def positive_hash(key: bytes, partitioner: str = MURMUR2) -> int:
    """The hash of `key`, from 0 to 2^32 - 1; of murmur2 Kafka's `toPositive`.

    The library gives only remainders. The remainder by 3 tells the numbers with the same remainder by 2^31 - 1 apart.
    """
    place = PARTITIONERS[partitioner]
    return next(number for number in range(place(key, _MOST), 2**32, _MOST) if number % 3 == place(key, 3))


def _view_route(view: ViewEntry, text: str, processors: Processors) -> ViewRoute:
    codec, count = CODECS[view.key], processors.topics[view.topic]
    raw = codec.encode(codec.parse(text))
    number = partition_of(raw, count, view.partitioner)
    unowned = Partition(number, None, 0, ready=False, positions={}, ends={})
    held = next((held for held in processors.partitions if held.partition == number), unowned)
    position = held.positions.get(view.topic, 0)
    return ViewRoute(
        view=view.name,
        topic=view.topic,
        key=view.key,
        key_bytes=raw.hex(),
        hash=positive_hash(raw, view.partitioner),
        partitions=count,
        partition=number,
        anywhere=view.anywhere,
        owner=held.owner,
        epoch=held.epoch,
        ready=held.ready,
        lag=max(0, held.ends.get(view.topic, position) - position),
        partitioner=view.partitioner,
    )
