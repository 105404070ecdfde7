"""The present state of all services, from their instances."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Literal

import msgspec

from services.gateway.routing.directory import BESIDE
from services.gateway.routing.owners import Owners
from services.gateway.topic_rates import Topic, TopicRates
from streamstate.deployment.address import Address
from streamstate.web.client.instances import ANYONE, Instances, InstanceUnreachable
from streamstate.web.http.deadline import Deadline
from streamstate.web.http.events import ServerSentEvent
from streamstate.web.http.request import Response
from streamstate.web.partition_map import PATH, Partition, Processors

SYSTEM = "system"
"""The type of the events."""

ANSWER_S = 0.8
"""Seconds until a silent instance counts as away."""

LEAST_S = 0.2
"""The least seconds of a rate."""

State = Literal["ready", "building", "refused", "none"]

_decode = msgspec.json.Decoder(Processors).decode


class Owner(msgspec.Struct):
    """A partition and its owner: the address (null: no owner yet), and the first part of the host name.

    `state`: `ready`; `building` from nothing; `refused` until an operator acts; `none` while the owner does not answer.
    """

    partition: int
    instance: str | None
    address: str | None
    state: State


class Service(msgspec.Struct, rename="camel"):
    """A release of a service, ready with all partitions.

    `lag`: records of the topics missing in the state. `freshness_ms`: milliseconds since the state had all records
    (null: unknown, or long ago). `reads_per_second`: recent answers of the instances. `progress`: of the first build, 0
    to 1. `troubles`: why streams do not fold. `dead_letter_reasons`: dead letters by stage and exception.

    `live`: whether the gateway answers from the release. `service`: the gateway's name of the service. `release`: NAME
    of the deployment.
    """

    name: str
    partitions: int
    ready: bool
    lag: int
    reads_per_second: float
    freshness_ms: int | None
    dead_letters: int
    dead_letter_reasons: dict[str, int]
    progress: float
    troubles: list[str]
    owners: list[Owner]
    live: bool = True
    service: str = ""
    release: str = ""


class SystemState(msgspec.Struct):
    """The releases of all services, in the order of the gateway's settings, and their topics, the busiest first."""

    services: list[Service]
    topics: list[Topic] = []


EXAMPLE_STATE = SystemState(
    [
        Service(
            name="metrics",
            partitions=1,
            ready=False,
            lag=17,
            reads_per_second=240.5,
            freshness_ms=120,
            dead_letters=3,
            dead_letter_reasons={"decode: BadRecord": 3},
            progress=0.75,
            troubles=[],
            owners=[Owner(0, "metrics-0", "metrics-0:8101", "building")],
        )
    ],
    [Topic("listening-events", 4_711, 50.5)],
)
"""For the document."""


class System:
    """Asks every instance. For one event loop."""

    def __init__(self, owners: Owners, client: Instances) -> None:
        self._owners = owners
        self._client = client
        self._counts: dict[str, tuple[float, int]] = {}
        """By address: the time of an instance's last report, and its number of answered requests."""
        self._topics = TopicRates()

    async def event(self, _deadline: Deadline) -> ServerSentEvent:
        return ServerSentEvent(SYSTEM, "", msgspec.json.encode(await self.read_state()))

    async def read_state(self) -> SystemState:
        found = await asyncio.gather(*map(self._release, list(self._owners.addresses)))
        maps = (known for _, known in found if known)
        return SystemState([each for each, _ in found], self._topics.read(maps, time.monotonic()))

    async def _release(self, deployment: str) -> tuple[Service, Processors | None]:
        addresses = self._owners.addresses.get(deployment, ())
        answers = dict(zip(addresses, await asyncio.gather(*map(self._ask, addresses)), strict=True))
        maps = {address: owners for address, answer in answers.items() if answer and (owners := _map(answer))}
        rate = self._rate({address: owners.answered for address, owners in maps.items()})
        known = next(iter(maps.values()), None)
        if known is None and (before := self._owners.release(deployment)):
            known = before.processors
        of, _, release = deployment.partition(BESIDE)
        answering = {address for address, answer in answers.items() if answer}
        state = service(release or of, known, answering, rate, current=bool(maps))
        state.live, state.service = self._owners.is_live(deployment), of
        state.release = known.service if known else release or of
        return state, known

    async def _ask(self, address: str) -> Response | None:
        with suppress(InstanceUnreachable):
            return await self._client.get(address, PATH, Deadline(time.monotonic() + ANSWER_S), (), ANYONE)
        return None

    def _rate(self, counts: Mapping[str, int]) -> float:
        """The answered requests a second since the last poll; `counts` are the answered requests by address."""
        now, rate = time.monotonic(), 0.0
        for address, count in counts.items():
            before, previous = self._counts.get(address, (now, count))
            # A restarted instance counts from 0.
            rate += max(0, count - previous) / max(now - before, LEAST_S)
            self._counts[address] = now, count
        return round(rate, 1)


def _map(answer: Response) -> Processors | None:
    """The owner map in an answer; None for a problem, or the map of another version."""
    with suppress(msgspec.MsgspecError):
        return _decode(answer.body) if answer.status == 200 else None
    return None


def service(name: str, known: Processors | None, answering: Set[str], rate: float, *, current: bool) -> Service:
    """The state of a service with the map `known`, `current` if from this poll; `answering` are addresses."""
    partitions = known.partitions if known else []
    held = {partition.partition: partition for partition in partitions}
    anywhere = known is not None and all(view.anywhere for view in known.views if view.key)
    width = max(known.topics.values()) if known else 0
    owners = [_owner(n, held.get(n), answering, anywhere=anywhere, current=current) for n in range(width)]
    lags = (max(0, end - part.positions.get(topic, 0)) for part in partitions for topic, end in part.ends.items())
    return Service(
        name=name,
        partitions=len(owners),
        ready=bool(owners) and all(owner.state == "ready" for owner in owners),
        lag=sum(lags),
        reads_per_second=rate,
        freshness_ms=known.age_ms if known and current else None,
        dead_letters=sum(partition.dead_letters for partition in partitions),
        dead_letter_reasons=dict(sum((Counter(partition.dead_letter_reasons) for partition in partitions), Counter())),
        progress=round(sum(partition.progress for partition in partitions) / len(partitions), 3) if partitions else 0.0,
        troubles=[*dict.fromkeys(each.trouble for each in known.instances if each.trouble)] if known else [],
        owners=owners,
    )


def _owner(number: int, held: Partition | None, answering: Set[str], *, anywhere: bool, current: bool) -> Owner:
    if held is None:
        # Maps lack a partition with half a commit.
        return Owner(number, None, None, "refused")
    owner = Address.parse(held.owner) if held.owner else None
    name = owner.host.partition(".")[0] if owner and owner.is_name else held.owner
    state: State
    if held.owner is None or not (answering if anywhere else held.owner in answering):
        state = "none"
    elif held.refused or not current:
        state = "refused"
    else:
        state = "ready" if held.ready else "building"
    return Owner(held.partition, name, held.owner, state)
