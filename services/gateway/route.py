"""Why a request goes where it goes: the route of a key, step by step."""

import msgspec
from confluent_kafka import murmur2

from services.gateway.owners import Owners
from streamstate.errors import BadKey
from streamstate.keys import CODECS, partition_of
from streamstate.web.http.problems import Problem
from streamstate.web.partition_map import Partition, ViewEntry

_MOST = 2**31 - 1


class OffsetAdvance(msgspec.Struct, rename="camel"):
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
    views: list[OffsetAdvance]


async def route(owners: Owners, service: str, text: str) -> Route:
    """As the gateway knows it now.

    Raises `BadKey` for text that is a key of no view of `service`, a 404 `Problem` for a service that there is not.
    """
    if service not in owners.addresses:
        raise Problem(404, "unknown-service", f"the services are: {', '.join(owners.addresses)}")
    known = (await owners.service(service)).processors
    partitions = {one.partition: one for one in known.partitions}
    steps, refused = [], BadKey(f"{service} answers for no key")
    for view in (one for one in known.views if one.topic):
        try:
            steps.append(_step(view, text, known.topics[view.topic], partitions))
        except BadKey as error:
            refused = error
    if not steps:
        raise refused
    return Route(service, text, steps)


def positive_hash(key: bytes) -> int:
    """Kafka's `toPositive(murmur2(key))`, from 0 to 2^31 - 1.

    The library gives remainders only: that by 2^31 - 1 is the hash, but for 2^31 - 1 itself, odd where 0 is even.
    """
    return murmur2(key, _MOST) or _MOST * murmur2(key, 2)


def _step(view: ViewEntry, text: str, count: int, partitions: dict[int, Partition]) -> OffsetAdvance:
    codec = CODECS[view.key]
    raw = codec.encode(codec.parse(text))
    number = partition_of(raw, count)
    held = partitions.get(number, Partition(number, None, 0, ready=False, positions={}, ends={}))
    position = held.positions.get(view.topic, 0)
    return OffsetAdvance(
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
