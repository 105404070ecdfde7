"""Limits of a stream: size of commits, number of dead letters, range of timestamps, pace of builds."""

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streamstate.errors import Fenced, TooManyDeadLetters
from streamstate.processing.decode import Admission, DeadLetter, Refusal
from streamstate.state.store import Claim, Store, TopicPartition

_SHOWN, _KEPT = 3, 100
"""Dead letters shown and kept by a refusal."""

WINDOW = 10_000
"""Records among which the dead letters are counted."""

_ANY_TIME = 2**63 - 1


class DeadLetterLimit:
    """Stops a stream with more than `most`, and more than `share` (0 to 1), dead letters among its last records.

    The last records are the last 10,000 of the process, in whole commits.
    """

    def __init__(self, most: int = 0, share: float = 1.0) -> None:
        self._most = most
        self._share = share
        self._commits: deque[tuple[int, int]] = deque()
        self._records = 0
        self._dead = 0

    def require(self, records: int, letters: Sequence[tuple[int, DeadLetter]]) -> None:
        """Raise `TooManyDeadLetters` if `letters` (with their partitions) among `records` further records are too many.

        The records are folded after a fix of the decoder.
        """
        records, dead = self._records + records, self._dead + len(letters)
        if dead > self._most and dead > self._share * records:
            shown = letters[:_SHOWN]
            first = [f"{letter.reason} at {letter.topic}:{partition}:{letter.offset}" for partition, letter in shown]
            msg = (
                f"{dead} of the last {records} records are dead letters ({', '.join(first)}); look at them by "
                "`streamstate dlq list SERVICE --reason 'not committed'`, roll back the release or "
                "fix the decoder or fold, or raise STREAMSTATE_DEAD_LETTERS or _DEAD_LETTER_SHARE to accept them"
            )
            raise TooManyDeadLetters(msg, letters[:_KEPT])

    def add(self, records: int, dead: int) -> None:
        """Count a commit."""
        self._commits.append((records, dead))
        self._records += records
        self._dead += dead
        while self._records - self._commits[0][0] >= WINDOW:
            records, dead = self._commits.popleft()
            self._records -= records
            self._dead -= dead


@dataclass(frozen=True)
class TimestampLimit:
    """The records left out of decoding: records from the future, which would expire windows and histories too early.

    unbounded: by topic, the tolerated milliseconds ahead of the clock, where Kafka accepts later timestamps.
    refused: by offset, records that became dead letters for their timestamp before, and stay so when the time has come,
        and records skipped by an operator.
    """

    unbounded: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[TopicPartition, Mapping[int, Refusal]] = field(default_factory=dict)

    def admission(self, place: TopicPartition, now_ms: int) -> Admission:
        """The admitted records of `place` at the time `now_ms` (milliseconds since 1970)."""
        tolerance = self.unbounded.get(place[0])
        latest = _ANY_TIME if tolerance is None else now_ms + tolerance
        return Admission(latest, self.refused.get(place, {}))


class CommitLimit(NamedTuple):
    """The most records, and changes of the state, of one commit. A record is never split."""

    records: int = sys.maxsize
    changes: int = sys.maxsize


NO_LIMIT = CommitLimit()


@dataclass(frozen=True)
class Limits:
    """The limits of a stream; by default none.

    building: of commits to a state built from nothing and not yet read. ready: of other commits. build_rate: records a
        second of each partition that is built; None: no bound.
    """

    building: CommitLimit = NO_LIMIT
    ready: CommitLimit = NO_LIMIT
    dead_letters: DeadLetterLimit = field(default_factory=DeadLetterLimit)
    timestamps: TimestampLimit = field(default_factory=TimestampLimit)
    build_rate: float | None = None


LOOK_S = 1.0
"""Seconds between two looks at the rates in the state."""


@dataclass
class Pace:
    """The rates of builds, in records a second of each partition: the operator's in the state, else `configured`.

    Without a rate (None), a build has no pace. claims: of the partitions.
    """

    store: Store
    claims: Mapping[int, Claim]
    configured: float | None = None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _rates: dict[int, float | None] = field(default_factory=dict)
    _looked: float = -LOOK_S
    _last: dict[int, tuple[float, int]] = field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        """Whether there is a rate. Raises `Fenced` as `turn` does."""
        return any(self._rate(partition) is not None for partition in self.claims)

    def limit(self, partition: int, building: CommitLimit, ready: CommitLimit) -> CommitLimit:
        """The limit of a build's next commit: with a rate, as of a ready state, and the records of a second."""
        rate = self._rate(partition)
        return building if rate is None else ready._replace(records=max(1, min(ready.records, int(rate))))

    def turn(self, records: Mapping[int, int]) -> None:
        """Return when builds may commit `records`, by partition. Raises `Fenced` for a partition of another process."""
        while (pause := max(map(self._pause, records), default=0.0)) > 0:
            self.sleep(min(pause, LOOK_S))
        now = self.clock()
        self._last |= {partition: (now, count) for partition, count in records.items()}

    def _pause(self, partition: int) -> float:
        """Seconds until the last commit's records are over at the rate; the rate may change meanwhile."""
        rate = self._rate(partition)
        if not rate:
            return 0.0 if rate is None else LOOK_S
        committed, count = self._last.get(partition, (0.0, 0))
        return committed + count / rate - self.clock()

    def _rate(self, partition: int) -> float | None:
        if self.clock() - self._looked >= LOOK_S:
            snapshots = self.store.read(dict.fromkeys(self.claims, ()))
            for claimed, snapshot in snapshots.items():
                if snapshot.epoch != self.claims[claimed].epoch:
                    msg = f"partition {claimed} is claimed by another process during its build"
                    raise Fenced(msg)
            self._rates = {p: self.configured if s.rate is None else s.rate for p, s in snapshots.items()}
            self._looked = self.clock()
        return self._rates[partition]
