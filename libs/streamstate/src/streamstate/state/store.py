"""The state of one app, and the store that keeps it.

State lives in named keys, grouped by Kafka partition. A partition's keys change only by a commit, together with the
offset that they stand for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

from streamstate.errors import Declined, IncompleteCommit
from streamstate.state.operations import Operation, Read, changes

TopicPartition = tuple[str, int]
"""Topic and partition."""


DELETIONS = "user deletions"
"""As of a topic, but called as none can be: the offset before which a state has applied all deletions of users."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a writer got when it took a partition over; its commits count only as long as this is true.

    `epoch` rises with every claim. `server` names the run of the server that answered: one that restarted, failed
    over or was emptied may hold an older state, so it refuses the commits of an earlier claim. `positions` are the next
    offsets by topic, as stored, and `times` the stream times there. `skips` are the records, by topic and offset, that
    an operator skips, and why. `deletions` is the offset before which the deletions of users are applied.
    """

    partition: int
    epoch: int
    server: str
    positions: Mapping[str, int]
    times: Mapping[str, int] = field(default_factory=dict)
    skips: Mapping[tuple[str, int], str] = field(default_factory=dict)
    deletions: int | None = None


class Allowance(NamedTuple):
    """An operator's decision that a state may lack the records of a topic `before` an offset, and why."""

    before: int
    reason: str


def committed(topic: str, partition: int, offset: int, stored: int) -> Declined:
    """The error for a record that cannot be skipped, since the next offset that is stored is behind it."""
    return Declined(
        f"{topic}:{partition} is committed up to {stored}, so the record at {offset} is in the state; to leave it out, "
        f"stop the streams, run `streamstate reset SERVICE --partition {partition}`, and skip it before they start"
    )


class Origin(NamedTuple):
    """What makes a topic the same as before: its id, which Kafka gives anew to a topic of an old name, and its width.

    A state belongs to the origins that it was built from: offsets count the records of one topic id, and keys lie where
    the number of `partitions` put them.
    """

    id: str
    partitions: int


NOTHING: Mapping[str, Any] = {}

FORMAT = 1
"""The form in which this release keeps what operations write. A state of another form cannot be read or continued."""


class OffsetAdvance(msgspec.Struct, frozen=True, array_like=True):
    """How far a commit moves one topic: from offset `expected` (None where nothing was stored yet) to `next`.

    `time` is the topic's stream time at `next`: the greatest Kafka timestamp before it, in milliseconds.
    """

    topic: str
    expected: int | None
    next: int
    time: int = 0


@dataclass(frozen=True)
class Commit:
    """One step of one partition: `operations` bring the state from the expected offsets to the next ones.

    `counters` are added to the partition's own counts (dead letters, misplaced keys), so these are as exact as the
    state.
    """

    claim: Claim
    steps: Sequence[OffsetAdvance]
    operations: Sequence[Operation]
    counters: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def changes(self) -> int:
        """How many changes its operations make at most."""
        return sum(map(changes, self.operations))


# One is made at each read: a data class would take four times as long.
class Snapshot(msgspec.Struct, frozen=True):
    """One partition at one moment: who owns it, where it stands, and the values that were asked for.

    `owner` is the address (host:port) of the owning instance's API, None before the first claim; `positions` are the
    next offsets by topic, `times` the stream times there; `targets` are the positions from which a state built from
    nothing is complete; `origins` are the topics as they were at the first claim; `values` answers the reads in their
    order. `begins` are the offsets at which the build began, `folds` the declarations of the folds that made the state,
    by topic, and `format` is its form: of a state from before these were kept, they are absent. `allowances` are what
    an operator allows it to lack, by topic. `deletions` is as of a `Claim`.
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

    def position_and_time(self, topic: str) -> tuple[int | None, int]:
        """The next offset of `topic` (None: nothing is stored) and the stream time there."""
        return self.positions.get(topic), self.times.get(topic, 0)

    def progress(self, topics: Iterable[str]) -> float:
        """How much of the first build over `topics` is done, 0 to 1; 1 for a state that is complete."""
        targets = {topic: self.targets.get(topic, 0) for topic in topics}
        wanted = sum(targets.values())
        done = sum(min(self.positions.get(topic, 0), target) for topic, target in targets.items())
        return done / wanted if wanted else 1.0

    def ready(self, topics: Iterable[str]) -> bool:
        """Whether the partition was claimed and has all of `topics` (it may still lag behind their ends)."""
        return self.owner is not None and self.progress(topics) == 1.0


class Store(Protocol):
    """One app's state. A verb may block for a round trip, and raises the client's own error when none comes.

    Each raises `IncompleteCommit` for a partition that holds a part of a commit.
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

        All are by topic. Where no offset is stored, the end offsets `ends` become the targets, unless there are some,
        and `begins`, the first offsets, and `folds`, the declarations of the folds, are kept. Where one is stored,
        `folds` are kept unless there are some. `origins` are kept for the topics that have none.
        """
        ...

    def commit(self, *commits: Commit) -> None:
        """Apply them in order, each whole or not at all; raises `Fenced` when one was refused.

        After `Fenced` the others may have been applied or not. May be repeated: the second time is refused.
        """
        ...

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        """A snapshot of each partition named; one snapshot is one moment, two may differ."""
        ...

    def skip(self, partition: int, topic: str, offset: int, reason: str) -> None:
        """Let no commit fold the record of `topic` at `offset`: earlier claims are refused, the next one tells of it.

        Raises `Declined` when it is committed already.
        """
        ...

    def allow(self, partition: int, topic: str, allowance: Allowance) -> None:
        """Let the state of `partition` lack records of `topic`, until it is deleted."""
        ...


def whole(store: Store, partitions: Iterable[int]) -> tuple[Mapping[int, Snapshot], Mapping[int, IncompleteCommit]]:
    """The `partitions` without values, apart from those that hold a part of a commit, and what is wrong with these."""
    snapshots: dict[int, Snapshot] = {}
    halves: dict[int, IncompleteCommit] = {}
    for partition in partitions:
        try:
            snapshots |= store.read({partition: []})
        except IncompleteCommit as error:
            halves[partition] = error
    return snapshots, halves


class AsyncReads(Protocol):
    """One app's state, for those who only ask, on an event loop."""

    async def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        """As `Store.read`."""
        ...

    async def told(self, addresses: Sequence[str]) -> Mapping[str, str]:
        """Why streams do not fold, by the addresses of their APIs, where there is a reason."""
        ...

    async def close(self) -> None:
        """Let go of the connections."""
        ...
