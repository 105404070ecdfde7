"""Limits of a stream: size of commits, number of dead letters, range of timestamps."""

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streamstate.errors import TooManyDeadLetters
from streamstate.processing.decode import Admission, DeadLetter, Refusal
from streamstate.state.store import TopicPartition

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
