"""Why a request goes where it goes: the route of a key, step by step."""

from collections.abc import Iterable

import msgspec
from confluent_kafka import murmur2

from services.gateway.owners import Owners
from streamstate.errors import BadKey
from streamstate.keys import CODECS, partition_of
from streamstate.web.http.problems import Problem
from streamstate.web.partition_map import Partition, Processors, ViewEntry

_MOST = 2**31 - 1


class ViewRoute(msgspec.Struct, rename="camel"):
    """How one view of the service finds the key.

    `key_bytes` are what a producer writes, in hexadecimal digits; `hash` is Kafka's murmur2 of them as a positive
    number, `partition` its remainder by `partitions`, the topic's count. `owner` is null while nobody owns the
    partition; `lag` are the records that its state was behind the topic when the instance
    that told the map saw the topic's end last, 0 when it never did.
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


class Route(msgspec.Struct, rename="camel"):
    """The views of a service for which the text is a key, and where each is answered."""

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
    """As the gateway knows it now.

    Raises `BadKey` for text that is a key of no view of `service`, a 404 `Problem` for a service that there is not.
    """
    if service not in owners.addresses:
        raise unknown_service(owners.addresses)
    processors = owners.service(service).processors
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


def positive_hash(key: bytes) -> int:
    """Kafka's `toPositive(murmur2(key))`, from 0 to 2^31 - 1.

    The library gives only remainders of it. By 2^31 - 1 the remainder is the hash itself, except for the hash 2^31 - 1,
    whose remainder is 0. It is told from the hash 0 by its last bit.
    """
    return murmur2(key, _MOST) or _MOST * murmur2(key, 2)


def _view_route(view: ViewEntry, text: str, processors: Processors) -> ViewRoute:
    codec, count = CODECS[view.key], processors.topics[view.topic]
    raw = codec.encode(codec.parse(text))
    number = partition_of(raw, count)
    unowned = Partition(number, None, 0, ready=False, positions={}, ends={})
    held = next((held for held in processors.partitions if held.partition == number), unowned)
    position = held.positions.get(view.topic, 0)
    return ViewRoute(
        view=view.name,
        topic=view.topic,
        key=view.key,
        key_bytes=raw.hex(),
        hash=positive_hash(raw),
        partitions=count,
        partition=number,
        anywhere=view.anywhere,
        owner=held.owner,
        epoch=held.epoch,
        ready=held.ready,
        lag=max(0, held.ends.get(view.topic, position) - position),
    )
