"""Demanded freshness of an answer: the request waits, as a coroutine, until the state is fresh enough."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from confluent_kafka import KafkaException
from redis.exceptions import RedisError

from streamstate.errors import IncompleteCommit, Misconfigured
from streamstate.settings import DemandSettings
from streamstate.state.store import EACH, Positions, TopicPartition, offsets_of
from streamstate.web.freshness import Freshness, age_text
from streamstate.web.http.deadline import Deadline, bad_demand
from streamstate.web.http.demands import ENTRIES, ENTRIES_PATTERN, MAX_STALENESS, MIN_POSITION
from streamstate.web.http.problems import not_ready

PAUSE_S = 0.05
MARGIN_S = 0.1
"""Seconds of the deadline reserved for sending the answer after waiting."""

_ENTRIES = re.compile(ENTRIES_PATTERN, re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True)
class Demand:
    """A request's demands on the answering state. Positions of partitions outside the answer count as met."""

    positions: Positions
    staleness_s: float | None
    ends: Positions = field(default_factory=dict)

    @property
    def of_each(self) -> bool:
        """Whether the demand applies to each partition of a topic, up to its end in `ends`."""
        return any(partition == EACH for _, partition in self.positions)

    @classmethod
    def from_headers(cls, headers: Mapping[str, str], least_staleness_ms: int) -> "Demand":
        """From `X-Min-Position` and `X-Max-Staleness` (milliseconds); raises a 400 `Problem` for other texts."""
        wanted = headers.get(MIN_POSITION, "")
        if not _ENTRIES.fullmatch(wanted):
            raise bad_demand(MIN_POSITION, ENTRIES)
        positions = offsets_of(wanted)
        staleness = headers.get(MAX_STALENESS)
        if staleness is None:
            return cls(positions, None)
        if not (staleness.isascii() and staleness.isdigit() and len(staleness) < 10):
            raise bad_demand(MAX_STALENESS, "a whole number of milliseconds")
        if int(staleness) < least_staleness_ms:
            raise bad_demand(MAX_STALENESS, f"at least {least_staleness_ms}")
        return cls(positions, int(staleness) / 1000)

    def lacking(self, positions: Positions, age: float | None) -> str:
        """The distance between the state and the demand, empty when the demand is met."""
        for place, wanted in self._wanted(positions):
            missing = wanted - positions.get(place, wanted)
            if missing > 0:
                return f"partition {place[1]} of {place[0]} is {missing} records before the demanded position"
        if self.staleness_s is not None and (age is None or age > self.staleness_s):
            return age_text(age)
        return ""

    def require_written(self, ends: Positions) -> None:
        """Raise a 400 `Problem` for a position behind one of `ends`, which are read after the request came."""
        for place, wanted in self.positions.items():
            if wanted > ends.get(place, wanted):
                reached = (
                    f"no position of the present topic: {place[0]}:{place[1]} ends at {ends[place]}; after a topic was "
                    "created anew, send the position of a new write or answer"
                )
                raise bad_demand(MIN_POSITION, reached)

    def _wanted(self, positions: Positions) -> Iterator[tuple[TopicPartition, int]]:
        for (topic, partition), wanted in self.positions.items():
            if partition != EACH:
                yield (topic, partition), wanted
                continue
            for place in positions:
                if place[0] == topic:
                    yield place, min(wanted, self.ends.get(place, wanted))


class Demands:
    """The waiting requests: one poll of the state's positions and Kafka's ends serves all.

    positions: reads the state's next offsets of all partitions.
    """

    def __init__(
        self, freshness: Freshness, positions: Callable[[], Awaitable[Positions]], settings: DemandSettings
    ) -> None:
        self._freshness = freshness
        self._read_positions = positions
        self._settings = settings
        self._waiting: list[Demand] = []
        self._positions: Positions = {}
        self._polled = asyncio.Event()
        self._asking = asyncio.Lock()
        self._polling: asyncio.Task[None] | None = None

    async def read_until_met(
        self, read: Callable[[], Awaitable[T]], positions: Callable[[T], Positions], deadline: Deadline
    ) -> T:
        """The result of `read` as soon as it meets the request's demands.

        When the deadline passes, raises a 503 `Problem` with the remaining distance, or as `Demand.require_written`.
        Raises a 503 `Problem` when too many requests wait.
        """
        state = await read()
        if not deadline.demands:
            return state
        demand = Demand.from_headers(deadline.demands, self._settings.least_staleness_ms)
        if demand.of_each and demand.lacking(at := positions(state), self._freshness.age(at)):
            demand = replace(demand, ends=await self._ends(deadline))
        while lacking := demand.lacking(at := positions(state), self._freshness.age(at)):
            await self._wait(demand, at, lacking, deadline)
            state = await read()
        return state

    async def _ends(self, deadline: Deadline) -> Positions:
        """The ends of the topics, read after the call. Raises a 503 `Problem` when Kafka does not answer."""
        called = time.monotonic()
        try:
            async with asyncio.timeout_at(deadline.at - MARGIN_S), self._asking:
                if self._freshness.last[0] < called:
                    await asyncio.to_thread(self._freshness.refresh)
        except (TimeoutError, KafkaException, Misconfigured):
            silent = "Kafka does not say where its topics end"
            raise not_ready(silent) from None
        return self._freshness.last[1]

    async def _wait(self, demand: Demand, at: Positions, lacking: str, deadline: Deadline) -> None:
        """Wait until the polled positions of the places of `at` meet the demand."""
        called = time.monotonic()
        if len(self._waiting) >= self._settings.demands_waiting:
            raise not_ready(f"{lacking}, and the maximum number of requests waits already")
        self._waiting.append(demand)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        patience = asyncio.timeout_at(deadline.at - MARGIN_S)
        try:
            async with patience:
                while lacking:
                    await self._polled.wait()
                    now = {place: self._positions.get(place, offset) for place, offset in at.items()}
                    lacking = demand.lacking(now, self._freshness.age(now))
        except (TimeoutError, asyncio.CancelledError):
            # In a late loop, the deadline passes in the same turn and cancels this task too.
            if not patience.expired():
                raise
            read_at, ends = self._freshness.last
            if read_at > called:
                demand.require_written(ends)
            raise not_ready(lacking) from None
        finally:
            self._waiting.remove(demand)

    async def _poll(self) -> None:
        """Poll while a request waits."""
        ends_at = 0.0
        loop = asyncio.get_running_loop()
        while self._waiting:
            stale = any(demand.staleness_s is not None for demand in self._waiting)
            with suppress(IncompleteCommit, KafkaException, Misconfigured, RedisError):
                if stale and loop.time() >= ends_at:
                    ends_at = loop.time() + self._settings.least_staleness_ms / 2000
                    await asyncio.to_thread(self._freshness.refresh)
                self._positions = await self._read_positions()
            polled, self._polled = self._polled, asyncio.Event()
            polled.set()
            await asyncio.sleep(PAUSE_S)
