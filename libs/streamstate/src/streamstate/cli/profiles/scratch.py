"""A state in Redis for measurements, deleted at the end."""

import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import redis
from redis.exceptions import OutOfMemoryError

from streamstate import bootstrap
from streamstate.app import App
from streamstate.errors import Declined
from streamstate.processing.decode import RawRecord
from streamstate.processing.limits import Limits, TimestampLimit
from streamstate.profile.layout import EVENTS
from streamstate.profile.windows.slots import SLOTS
from streamstate.state.deletion import StateDeleter
from streamstate.state.operations import ExpireDays
from streamstate.state.store import Commit
from streamstate.testing import Driver

_ASKED = 1_000
"""Keys in one round trip."""

_EXPIRED = 100
"""Histories that a commit looks through, at least."""

BUCKET_BYTES = 24
"""Bytes of a key in Redis' table of keys, which `MEMORY USAGE` leaves out, with the rest of its allocations."""

_FULL = 0.9
"""The share of its memory that Redis may use during a measurement."""

ELSEWHERE = "name a Redis for trials by STREAMSTATE_REDIS, such as `redis-server --port 6390 --save ''`"


class Bytes(NamedTuple):
    """The bytes of a state without windows, and of windows."""

    ever: float
    windows: float


class TrialState:
    """A state of `app` in the partitions `held` of `partitions`, under the name `name`.

    ahead: the accepted milliseconds of a timestamp ahead of the clock.
    """

    def __init__(
        self, client: redis.Redis, app: App, name: str, partitions: int, held: Sequence[int], ahead: int
    ) -> None:
        self._client = client
        self._name = name
        limits = Limits(timestamps=TimestampLimit(dict.fromkeys(app.topics, ahead)))
        self._driver = Driver(app, bootstrap.store_over(client, name), partitions, held, limits)
        self._topic = app.topics[0]
        self.python_s = 0.0

    def fold(self, records: Iterable[tuple[int, RawRecord]]) -> None:
        """Fold records with their partitions. Raises `Declined` when Redis has no room."""
        require_room(self._client, 0)
        by_partition: defaultdict[int, list[RawRecord]] = defaultdict(list)
        for partition, record in records:
            by_partition[partition].append(record)
        begun = time.thread_time()
        try:
            for partition, raw in by_partition.items():
                self._driver.feed(partition, {self._topic: raw})
        except OutOfMemoryError as error:
            raise _no_room(f"Redis refuses writes ({error})") from error
        self.python_s += time.thread_time() - begun

    def expire(self, keys: int) -> None:
        """Remove the expired days of `keys` keys, of which a commit removes a part."""
        store = self._driver.store
        for partition, snapshot in store.read(dict.fromkeys(self._driver.claims, ())).items():
            expiry = [ExpireDays(EVENTS, before) for family, before in snapshot.expired.items() if family == EVENTS]
            for _ in range(keys // _EXPIRED + 1 if expiry else 0):
                store.commit(Commit(self._driver.claims[partition], (), expiry))

    @property
    def refused(self) -> int:
        """The number of dead letters."""
        return len(self._driver.dead)

    def bytes(self) -> Bytes:
        """The memory of the keys, without and of the windows."""
        found = [0.0, 0.0]
        keys = self._client.scan_iter(match=f"{{{self._name}:*", count=_ASKED)
        while batch := list(islice(keys, _ASKED)):
            pipeline = self._client.pipeline(transaction=False)
            for key in batch:
                pipeline.memory_usage(key, 0)
            for key, used in zip(batch, pipeline.execute(), strict=True):
                _, _, own = key.partition(b"}:")
                found[own.partition(b":")[0].decode() in (EVENTS, SLOTS)] += (used or 0) + BUCKET_BYTES
        return Bytes(*found)


@contextmanager
def scratch(client: redis.Redis, app: App, name: str, *place: Any) -> Iterator[TrialState]:
    """A trial state; `name` and `place` are as of `TrialState`. SIGTERM and Ctrl-C delete the state, too.

    The state of a killed command is deleted first.
    """
    deleter = StateDeleter(client, name)

    def clear() -> None:
        if there := deleter.holdings():
            deleter.run(list(there))

    former = signal.signal(signal.SIGTERM, _interrupted)
    try:
        clear()
        yield TrialState(client, app, name, *place)
    finally:
        clear()
        signal.signal(signal.SIGTERM, former)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def require_room(client: redis.Redis, needed: int) -> None:
    """Raise `Declined` unless `needed` further bytes leave a tenth of the memory of Redis free."""
    memory: Mapping[str, Any] = client.info("memory")
    limit = memory["maxmemory"] or memory["total_system_memory"]
    used = memory["used_memory"]
    if used + needed > _FULL * limit:
        raise _no_room(f"Redis uses {megabytes(used)} of {megabytes(limit)}, and the sample needs {megabytes(needed)}")


def _no_room(reason: str) -> Declined:
    return Declined(f"{reason}: take a smaller sample by --records, or {ELSEWHERE}")


def redis_cpu_s(client: redis.Redis) -> float:
    """The CPU time of Redis, in seconds."""
    cpu: Mapping[str, Any] = client.info("cpu")
    return float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])


def megabytes(number: float) -> str:
    """A number of bytes for people."""
    return f"{number / 1e6:,.1f} MB"
