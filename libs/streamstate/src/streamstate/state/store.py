"""The state of one app, and its store.

State lives in named keys, grouped by Kafka partition. Only a commit changes a partition's keys, together with their
offset.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

from streamstate.errors import Declined, IncompleteCommit
from streamstate.state.operations import Operation, Read, changes

TopicPartition = tuple[str, int]
"""Topic and partition."""

Positions = Mapping[TopicPartition, int]
"""Next offsets."""

EACH = -1
"""In place of a partition: each partition of the topic."""

ENTRY_PATTERN = r"([A-Za-z0-9._-]{1,249}):([0-9]{1,9}|\*)=([0-9]{1,18})"
_ENTRY = re.compile(ENTRY_PATTERN, re.ASCII)


def offsets_text(offsets: Positions) -> str:
    """Offsets in a header: `topic:partition=offset`, separated by commas."""
    return ", ".join(f"{topic}:{'*' if p == EACH else p}={offset}" for (topic, p), offset in offsets.items())


def offsets_of(text: str) -> Positions:
    """The inverse of `offsets_text`; repeated partitions keep the greatest offset."""
    entries = (
        ((topic, EACH if partition == "*" else int(partition)), int(offset))
        for topic, partition, offset in _ENTRY.findall(text)
    )
    # Sorted, the greatest offset of a partition comes last, and stays.
    return dict(sorted(entries))


DELETIONS = "user deletions"
"""Pseudo-topic name under which a partition stores its offset in the topic of deletions."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A writer's claim of a partition, which its commits are checked against.

    `epoch` rises with every claim. `server` is the run id of the answering server: a server that restarted, failed over
        or was emptied may hold an older state, and refuses the commits of an earlier claim. `positions` are the stored
        next offsets by topic, `times` the stream times there. `skips` are the records skipped by an operator, by topic
        and offset, with the reasons. `deletions` is the offset before which the deletions of users are applied.
    """

    partition: int
    epoch: int
    server: str
    positions: Mapping[str, int]
    times: Mapping[str, int] = field(default_factory=dict)
    skips: Mapping[tuple[str, int], str] = field(default_factory=dict)
    deletions: int | None = None


class Allowance(NamedTuple):
    """An operator's permission for a state to lack a topic's records `before` an offset, with the reason."""

    before: int
    reason: str


def committed(topic: str, partition: int, offset: int, stored: int) -> Declined:
    """The error for a record that cannot be skipped, since the stored next offset is behind it."""
    return Declined(
        f"{topic}:{partition} is committed up to {stored}, so the record at {offset} is in the state; to leave the "
        f"record out, stop the streams, run `streamstate reset SERVICE --partition {partition}`, and skip "
        "the record before the streams start"
    )


class Origin(NamedTuple):
    """The identity of a topic: its id, which Kafka gives anew to a recreated topic, and its partition count.

    A state belongs to the origins that it was built from: offsets count the records of one topic id, and the number of
    `partitions` determines the partition of a key.
    """

    id: str
    partitions: int


NOTHING: Mapping[str, Any] = {}

OPEN = 2**53
"""The target of a topic that the app itself fills, until the topics behind it have their targets."""

FORMAT = 1
"""The storage format of this release. A state of another format cannot be read or continued."""


class OffsetAdvance(msgspec.Struct, frozen=True, array_like=True):
    """A commit's step in one topic: from offset `expected` (None without a stored offset) to `next`.

    `time` is the topic's stream time at `next`: the greatest Kafka timestamp before it, in milliseconds.
    """

    topic: str
    expected: int | None
    next: int
    time: int = 0


@dataclass(frozen=True)
class Commit:
    """One step of one partition: `operations` bring the state from the expected offsets to the next offsets.

    `counters` are added to the partition's own counts (dead letters, misplaced keys), which are as exact as the state.
    `record` is the number of the record of releases by which its outputs were published, None without outputs.
    """

    claim: Claim
    steps: Sequence[OffsetAdvance]
    operations: Sequence[Operation]
    counters: Mapping[str, int] = field(default_factory=dict)
    record: int | None = None

    @cached_property
    def changes(self) -> int:
        """How many changes its operations make at most."""
        return sum(map(changes, self.operations))


# Each read makes a snapshot: a data class would take four times as long.
class Snapshot(msgspec.Struct, frozen=True):
    """One partition at one moment: owner, offsets, and the requested values.

    `owner` is the address (host:port) of the owning instance's API, None before the first claim; `positions` are the
    next offsets by topic, `times` the stream times there; `targets` are the positions from which a state built from
    nothing is complete; `origins` are the topics as of the first claim; `values` are the results of the reads, in their
    order. `begins` are the offsets at which the build began, `folds` the declarations of the folds of the state, by
    topic, and `format` is its storage format; states of early releases lack all three. `allowances` are the operator's,
    by topic. `deletions` is as of a `Claim`. `expired` are the times before which entries are expired, by family.
    `backup` is the time of the last backup (milliseconds since 1970), None before the first backup.
    `rate` is the operator's limit of a build, in records a second. `placed` is, by topic, the partitioner of sampled
    keys, where the stream found another than the declared one. `record` is the number of the latest record of releases
    by which outputs were published, or the partition was fenced. `size` is the bytes of the values in Redis.
    """

    owner: str | None
    epoch: int
    positions: Mapping[str, int]
    times: Mapping[str, int]
    targets: Mapping[str, int]
    counters: Mapping[str, int]
    origins: Mapping[str, Origin]
    values: Sequence[Any]
    begins: Mapping[str, int] = {}
    folds: Mapping[str, str] = {}
    format: int | None = None
    allowances: Mapping[str, Allowance] = {}
    deletions: int | None = None
    expired: Mapping[str, int] = {}
    backup: int | None = None
    rate: float | None = None
    placed: Mapping[str, str] = {}
    record: int = 0
    size: int = 0

    def position_and_time(self, topic: str) -> tuple[int | None, int]:
        """The next offset of `topic` (None: nothing is stored) and the stream time there."""
        return self.positions.get(topic), self.times.get(topic, 0)

    def progress(self, topics: Iterable[str]) -> float:
        """The share of the first build over `topics` that is done, 0 to 1; 1 for a complete state."""
        targets = {topic: self.targets.get(topic, 0) for topic in topics}
        if OPEN in targets.values():
            return min(0.99, self.progress(topic for topic, target in self.targets.items() if target != OPEN))
        wanted = sum(targets.values())
        done = sum(min(self.positions.get(topic, 0), target) for topic, target in targets.items())
        return done / wanted if wanted else 1.0

    def ready(self, topics: Iterable[str]) -> bool:
        """Whether the partition was claimed and has all of `topics` (it may still lag behind their ends)."""
        return self.owner is not None and self.progress(topics) == 1.0

    def continues(self, earlier: "Snapshot") -> bool:
        """Whether this is the state of `earlier`, or the same state with further commits: by the same claim."""
        ahead = all(self.positions.get(topic, 0) >= offset for topic, offset in earlier.positions.items())
        return ahead and self.epoch == earlier.epoch


class Store(Protocol):
    """One app's state. A method may block for a round trip, and raises the client's own error when no answer comes.

    Each method raises `IncompleteCommit` for a partition with a partly applied commit.
    """

    def claim(
        self,
        partition: int,
        owner: str,
        ends: Mapping[str, int],
        origins: Mapping[str, Origin] = NOTHING,
        begins: Mapping[str, int] = NOTHING,
        folds: Mapping[str, str] = NOTHING,
    ) -> Claim:
        """Take `partition` over for `owner`: from here on, commits of earlier claims are refused.

        All arguments are by topic. A topic without a stored offset stores the end offset in `ends` as target, unless it
        has a target, and stores `begins`, the first offsets, and `folds`, the declarations of the folds. The target
        `OPEN` is replaced by any claim. A topic with a stored offset stores `folds` unless it has a declaration. A
        topic without an origin stores `origins`.
        """
        ...

    def commit(self, *commits: Commit, dry_run: bool = False) -> None:
        """Apply `commits` in order, each completely or not at all; a `dry_run` raises as each alone would, and no more.

        Raises `Fenced` when one was refused, and `Superseded` after the fence of a later record; the others may have
        been applied or not. Raises `Inexact` for commits that take a number beyond ±2^53, with the others applied. May
        be repeated: the second time is refused.
        """
        ...

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        """A snapshot of each partition in `wanted`; each snapshot is of one moment, two may differ."""
        ...

    def fence(self, partitions: Iterable[int], record: int) -> Mapping[int, Snapshot]:
        """Refuse commits with outputs by an earlier `record` of releases; returns the partitions, without values.

        Partitions without a claim stay unfenced: their owners read the record later.
        """
        ...

    def skip(self, partition: int, topic: str, offset: int, reason: str) -> None:
        """Let no commit fold the record of `topic` at `offset`: earlier claims are refused, later claims have the skip.

        Raises `Declined` when the record is committed already.
        """
        ...

    def allow(self, partition: int, topic: str, allowance: Allowance) -> None:
        """Let the state of `partition` lack records of `topic`, until the state is deleted."""
        ...

    def throttle(self, partition: int, rate: float | None) -> None:
        """Let builds of `partition` fold `rate` records a second; None: as configured."""
        ...


def positions_of(snapshots: Mapping[int, Snapshot]) -> dict[TopicPartition, int]:
    """The next offsets of all topics and partitions."""
    return {(topic, p): offset for p, snapshot in snapshots.items() for topic, offset in snapshot.positions.items()}


def whole(store: Store, partitions: Iterable[int]) -> tuple[Mapping[int, Snapshot], Mapping[int, IncompleteCommit]]:
    """The complete partitions among `partitions`, without values, and the errors of the rest."""
    snapshots: dict[int, Snapshot] = {}
    halves: dict[int, IncompleteCommit] = {}
    for partition in partitions:
        try:
            snapshots |= store.read({partition: []})
        except IncompleteCommit as error:
            halves[partition] = error
    return snapshots, halves


class AsyncReads(Protocol):
    """One app's state, read-only, on an event loop."""

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        """As `Store.read`."""
        ...

    async def troubles(self, addresses: Sequence[str]) -> Mapping[str, str]:
        """Why streams do not fold, by the addresses of their APIs, where there is a reason."""
        ...

    async def releases(self, of: str) -> bytes | None:
        """The stored record of the releases of the service whose first release is `of`, None without a record."""
        ...

    async def close(self) -> None:
        """Let go of the connections."""
        ...
