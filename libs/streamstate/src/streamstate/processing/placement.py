"""Whether the producers of a topic place keys by its declared partitioner, and if not, what to declare."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import KafkaException
from msgspec import UNSET
from redis.exceptions import RedisError

from streamstate.app import App, Source
from streamstate.errors import Misconfigured
from streamstate.keys import PARTITIONERS
from streamstate.keys.framed import Framed
from streamstate.keys.unread import Unread
from streamstate.processing.decode import MISPLACED
from streamstate.state.redis import RedisStore
from streamstate.state.store import Snapshot, whole

log = structlog.get_logger()

Keys = Iterable[tuple[int, bytes | None]]
"""Keys, each with its partition."""

MIXED = "mixed"
"""In place of a partitioner: none places all keys."""

_FIT = 0.99
"""The share of keys that a topic's partitioner places: a few records may come from another tool."""


def fitting(source: Source[Any, Any], keys: Keys, partitions: int) -> str:
    """The partitioner that places the `keys`, or `MIXED`; the declared one where it does.

    Keys of another type do not count.
    """
    if isinstance(source.key, Unread):
        return source.partitioner
    placed: set[tuple[int, bytes]] = set()
    for partition, raw in set(keys):
        with suppress(Exception):
            key = source.key.decode(raw)
            placed.add((partition, source.key.encode(key) if isinstance(source.key, Framed) else raw or b""))
    for name in dict.fromkeys((source.partitioner, *PARTITIONERS)):
        place = PARTITIONERS[name]
        if sum(place(raw, partitions) == partition for partition, raw in placed) >= _FIT * len(placed):
            return name
    return MIXED


def misplaced(app: App, topics: Collection[str], snapshots: Iterable[Snapshot]) -> list[str]:
    """What to do about those of `topics` whose producers place keys otherwise than declared, as the stream found."""
    found = {topic: by for snapshot in snapshots for topic, by in snapshot.placed.items() if topic in topics}
    advised = (advice(app, source, found.get(source.topic, source.partitioner)) for source in app.sources)
    return [each for each in advised if each]


def advice(app: App, source: Source[Any, Any], fits: str) -> str:
    """What to do about a topic whose keys the partitioner `fits` places, or `MIXED`; empty for the declared one."""
    if fits == source.partitioner:
        return ""
    if fits == MIXED:
        return (
            f"the keys of {source.topic} are placed by several partitioners: take the key from the value "
            "(docs/profile.md#10-the-key-from-the-value), or copy the records to a topic with one partitioner"
        )
    declare = f'STREAMSTATE_FORMATS=\'{{"{source.own_name}": {{"partitioner": "{fits}"}}}}\' for stream and API'
    if any(view.profile is not UNSET for view in app.views):
        declare = f"partitioner: {fits} in the profile"
    return f"the producers of {source.topic} place keys by {fits}, not {source.partitioner}: declare {declare}"


class Placement:
    """Samples the keys of the topics of `app`, once some are misplaced, and whenever twice as many more have come.

    The state then has the partitioner that places the keys, for `streamstate status` and unknown keys.
    """

    def __init__(
        self, app: App, store: RedisStore, partitions: Callable[[str], int], sampled: Callable[[Source[Any, Any]], Keys]
    ) -> None:
        """partitions: the partition count of a topic. sampled: some keys of a source, each with its partition."""
        self._app, self._store, self._partitions, self._sampled = app, store, partitions, sampled
        self._log = log.bind(service=app.name)
        self._earlier: int | None = None
        self._next = 1

    def look(self, snapshots: Mapping[int, Snapshot]) -> None:
        """Called with the partitions of this instance. A server that does not answer is asked at the next doubling."""
        count = sum(snapshot.counters.get(MISPLACED, 0) for snapshot in snapshots.values())
        if count >= self._next:
            # Those of before this process may be of a partitioner that was declared then.
            self._earlier = count if self._earlier is None else self._earlier
            self._next = self._earlier + max(1, 2 * (count - self._earlier))
            with suppress(KafkaException, Misconfigured, RedisError):
                self._sample()

    def _sample(self) -> None:
        for source in self._app.sources:
            partitions = self._partitions(source.topic)
            fits = fitting(source, self._sampled(source), partitions)
            for partition, snapshot in whole(self._store, range(partitions))[0].items():
                if snapshot.owner and snapshot.placed.get(source.topic, source.partitioner) != fits:
                    self._store.report_placed(partition, source.topic, fits)
            if reason := advice(self._app, source, fits):
                self._log.warning("keys are not where they are looked for", reason=reason)
