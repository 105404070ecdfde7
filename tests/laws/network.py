"""What the model of the commit protocol works with: a store behind a network, logs of topics, and a Spark query."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from streamstate.app import App
from streamstate.errors import Fenced
from streamstate.kafka import history
from streamstate.kafka.admin import Topics
from streamstate.kafka.claims import Claims
from streamstate.processing.decode import RawRecord, Refusal
from streamstate.processing.limits import Limits, TimestampLimit
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Read
from streamstate.state.store import NOTHING, Claim, Commit, Origin, Snapshot, TopicPartition
from streamstate.testing import Driver
from tests.laws.protocol import BROKEN
from tests.laws.stored import FailingStore

PARTITIONS = 2

Positions = Mapping[str, int]
Letters = defaultdict[TopicPartition, dict[int, Refusal]]
"""By place and offset: the dead letters of records that an operator skips."""

History = dict[int, tuple[Positions, ...]]
"""By partition: the position after each accepted commit."""


class Fate(Enum):
    """What becomes of a commit on its way: `HELD` may arrive later, whoever writes then."""

    APPLIED = "applied"
    LOST = "lost"
    REPLY_LOST = "applied, and the reply lost"
    TWICE = "sent again after a lost reply"
    HELD = "held"
    HALF_APPLIED = "applied up to some operation, where the store breaks"
    MOVING = "arrives while the slot of its partition is on the way to another node"
    MOVED = "arrives when the slot is on another node"


class Unanswered(Exception):
    """The writer cannot know what became of its commit."""


class Moving(Unanswered):
    """The node answers TRYAGAIN: it may have a part of the keys only."""


class Network(FailingStore):
    """The store behind a network, which remembers what was committed. Each partition is a slot of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.fate = Fate.APPLIED
        self.held: list[Commit] = []
        self.history: History = dict.fromkeys(range(PARTITIONS), ())
        self.incomplete: frozenset[int] = frozenset()
        self.applied = 0
        self.moving: frozenset[int] = frozenset()
        self._moves: Counter[int] = Counter()

    def claim(
        self,
        partition: int,
        owner: str,
        ends: Mapping[str, int],
        origins: Mapping[str, Origin] = NOTHING,
        begins: Mapping[str, int] = NOTHING,
        folds: Mapping[str, str] = NOTHING,
    ) -> Claim:
        self._require_still({partition})
        claim = super().claim(partition, owner, ends, origins, begins, folds)
        return replace(claim, server=f"{claim.server}, node {self._moves[partition]}")

    def read(self, wanted: Mapping[int, Sequence[Read]]) -> Mapping[int, Snapshot]:
        self._require_still(wanted)
        return super().read(wanted)

    def commit(self, *commits: Commit, dry_run: bool = False) -> None:
        """All at once; the fate of the last commit counts."""
        if dry_run:
            super().commit(*map(self._at_node, commits), dry_run=True)
            return
        *before, commit = commits
        for earlier in before:
            self.arrive(earlier)
        partition = commit.claim.partition
        match self.fate:
            case Fate.HALF_APPLIED:
                self.break_at(commit)
                raise Unanswered
            case Fate.LOST:
                raise Unanswered
            case Fate.HELD:
                self.held.append(commit)
                raise Unanswered
            case Fate.MOVING:
                self.moving |= {partition}
            case Fate.MOVED:
                self.move(partition)
        self.arrive(commit)
        match self.fate:
            case Fate.REPLY_LOST:
                raise Unanswered
            case Fate.TWICE:
                self.arrive(commit)

    def break_at(self, commit: Commit) -> None:
        operations = [*commit.operations[: self.applied], BROKEN]
        try:
            self._arrive(replace(commit, operations=operations))
        except AttributeError:
            self.incomplete |= {commit.claim.partition}

    def arrive(self, commit: Commit) -> None:
        self._arrive(commit)
        partition = commit.claim.partition
        self.history[partition] += (self.read({partition: []})[partition].positions,)

    def move(self, partition: int) -> None:
        """The partition moves to another node, with another run id."""
        self.moving -= {partition}
        self._moves[partition] += 1

    def saved(self) -> tuple[dict[int, Any], History, frozenset[int]]:
        return self.save(), dict(self.history), self.incomplete

    def rewind(self, saved: tuple[dict[int, Any], History, frozenset[int]]) -> None:
        self.restart(saved[0])
        self.history, self.incomplete = dict(saved[1]), saved[2]

    def forget(self, partitions: Iterable[int]) -> None:
        """Their keys are gone."""
        for partition in partitions:
            self.delete(partition)
            self.history[partition] = ()
        self.incomplete -= frozenset(partitions)

    def _arrive(self, commit: Commit) -> None:
        super().commit(self._at_node(commit))

    def _at_node(self, commit: Commit) -> Commit:
        claim = commit.claim
        self._require_still({claim.partition})
        server, _, node = claim.server.rpartition(", node ")
        if int(node) != self._moves[claim.partition]:
            raise Fenced
        return replace(commit, claim=replace(claim, server=server))

    def _require_still(self, partitions: Iterable[int]) -> None:
        if self.moving.intersection(partitions):
            raise Moving


class Logs(Topics):
    """The records of each place. Those before `begin` are deleted, and stay here for the recount."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.records: dict[TopicPartition, list[RawRecord]] = {(t, p): [] for t in topics for p in range(PARTITIONS)}
        self.begin = dict.fromkeys(self.records, 0)

    def begins(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.begin[place] for place in places}

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: max(self.begin[place], self._next(place)) for place in places}

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.ends(places)

    def _next(self, place: TopicPartition) -> int:
        return self.records[place][-1][0] + 1 if self.records[place] else 0

    def left(self, place: TopicPartition) -> list[RawRecord]:
        return [record for record in self.records[place] if record[0] >= self.begin[place]]


class Query:
    """A Spark query of one instance: it goes on from where it has read, whatever the store holds by now.

    Raises `Misconfigured` when the logs are not those of the state.
    """

    def __init__(self, app: App, store: MemoryStore, held: set[int], logs: Logs, letters: Letters) -> None:
        self.driver = Driver(app, store, PARTITIONS, held)
        origins = {topic: Origin(topic, PARTITIONS) for topic in app.topics}
        claims = Claims(app, store, history.TopicHistory(logs), "driver:1", truncated=(), skip_lost=False)
        self.driver.claims, self.position = claims.claim(held, origins)
        refused = {place: dict(refusals) for place, refusals in letters.items()}
        for partition, claim in self.driver.claims.items():
            for (topic, offset), reason in claim.skips.items():
                refused.setdefault((topic, partition), {})[offset] = Refusal("skip", reason)
        self.driver.limits = Limits(timestamps=TimestampLimit(refused=refused))
