"""The logs of all partitions, merged."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog

from services.events import LISTENING_EVENTS
from services.recommendations.model import PLAYS
from services.recommendations.packing import PlayBatch, unpack
from streamstate.errors import StreamStateError
from streamstate.state.operations import Since
from streamstate.state.store import Snapshot, Store

log = structlog.get_logger()

ANSWER_BYTES = 4_000_000  # of a partition in a read: enough for speed, and Redis is busy for milliseconds only
FIRST, FEWEST, MOST = 64, 8, 8_192  # entries of a read


class LogRewound(StreamStateError):
    """The store lost entries after they were read: the store was emptied, or fell back to an older state."""


class Rewritten(LogRewound):
    """The log was rewritten without the plays of deleted users."""


@dataclass
class _Part:
    """The position in a partition, after the entry `last` with the text `text`.

    `given` is the number of the last returned entry, `waiting` has the entries to return next.
    """

    epoch: int = 0
    last: int = 0
    text: bytes = b""
    stored: int = 0
    target: int = 0
    ready: bool = False
    more: bool = True
    many: int = FIRST
    deletions: int | None = None
    given: int = 0
    waiting: deque[tuple[int, PlayBatch]] = field(default_factory=deque)

    @property
    def position(self) -> int:
        """The next offset: all plays before were returned."""
        return self.given if self.more or self.waiting else self.stored

    def give(self) -> PlayBatch:
        self.given, plays = self.waiting.popleft()
        return plays

    def take(self, snapshot: Snapshot, topic: str) -> None:
        entries: list[tuple[int, bytes]] = snapshot.values[0]
        self.stored = snapshot.positions.get(topic, 0)
        self.target = snapshot.targets.get(topic, 0)
        self.ready, self.more = snapshot.ready([topic]), len(entries) == self.many
        if entries:
            self.last, self.text = entries[-1]
            self.waiting.extend(_readable(entries))
            mean = sum(len(text) for _, text in entries) // len(entries)
            self.many = min(MOST, max(FEWEST, ANSWER_BYTES // mean))


def _readable(entries: list[tuple[int, bytes]]) -> Iterator[tuple[int, PlayBatch]]:
    for number, text in entries:
        try:
            yield number, unpack(text)
        except ValueError as error:
            log.error("a log entry is left out; empty the state to build it again", entry=number, reason=str(error))


class Tail:
    """Follows the logs of `partitions` partitions. For a single thread.

    A store that falls back refuses its writers until a new claim. So after a claim of a partition, the presence of the
    last entry that was read proves that all earlier entries are unchanged.
    """

    def __init__(self, store: Store, partitions: int, topic: str = LISTENING_EVENTS) -> None:
        self.partitions = partitions
        self._topic = topic
        self._store = store
        self._parts = {partition: _Part() for partition in range(partitions)}

    def poll(self) -> list[PlayBatch]:
        """New plays of all partitions, merged by time up to the read positions. Raises `LogRewound`."""
        reads = {p: [Since(PLAYS, part.last, part.many)] for p, part in self._parts.items() if not part.waiting}
        for partition, snapshot in self._store.read(reads).items():
            part = self._parts[partition]
            self._require_width(snapshot)
            _require_as_written(partition, part, snapshot)
            if snapshot.epoch != part.epoch or snapshot.positions.get(self._topic, 0) < part.stored:
                self._check(partition, part)
            else:
                part.take(snapshot, self._topic)
        return list(_merged(list(self._parts.values())))

    @property
    def more(self) -> bool:
        """Whether the next poll is likely to find something."""
        return any(part.more for part in self._parts.values())

    @property
    def caught_up(self) -> bool:
        """Whether all stored plays were returned, and the stored state is complete."""
        return all(part.ready and not part.more and not part.waiting for part in self._parts.values())

    @property
    def progress(self) -> float:
        """The returned share of the plays at the start, 0 to 1."""
        wanted = sum(max(part.stored, part.target) for part in self._parts.values())
        return sum(part.position for part in self._parts.values()) / wanted if wanted else 0.0

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the next offset: all plays before were returned."""
        return {partition: part.position for partition, part in self._parts.items()}

    def _require_width(self, snapshot: Snapshot) -> None:
        origin = snapshot.origins.get(self._topic)
        if origin is not None and origin.partitions != self.partitions:
            msg = f"the state is of {origin.partitions} partitions by now; the graph is built again"
            raise LogRewound(msg)

    def _check(self, partition: int, part: _Part) -> None:
        """Go on under a new claim if the last entry is still there; its news are read by the next poll."""
        snapshot = self._store.read({partition: [Since(PLAYS, max(0, part.last - 1), 1)]})[partition]
        _require_as_written(partition, part, snapshot)
        if part.last and snapshot.values[0] != [(part.last, part.text)]:
            msg = f"partition {partition} does not hold entry {part.last} any more; the graph is built again"
            raise LogRewound(msg)
        part.epoch, part.stored, part.more = snapshot.epoch, snapshot.positions.get(self._topic, 0), True


def _require_as_written(partition: int, part: _Part, snapshot: Snapshot) -> None:
    deletions = snapshot.deletions or 0
    if part.deletions not in (None, deletions):
        msg = f"users were deleted from partition {partition}"
        raise Rewritten(msg)
    part.deletions = deletions


def _merged(parts: list[_Part]) -> Iterator[PlayBatch]:
    """The oldest waiting entries in turn, until the order depends on a partition without a waiting entry."""
    while all(part.waiting or not part.more for part in parts):
        waiting = [part for part in parts if part.waiting]
        if not waiting:
            return
        yield min(waiting, key=lambda part: part.waiting[0][1].time).give()
