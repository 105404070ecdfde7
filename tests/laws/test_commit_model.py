"""The commit protocol as a model: whatever is lost, repeated, late or rewound, the state is a recount of the topics.

Hypothesis invents histories: 150 of each app here, 10,000 of each by `make nightly`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamstate.errors import Declined, Fenced, IncompleteCommit, Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.claims import Claims
from streamstate.keys import partition_of
from streamstate.processing.decode import DEAD, MISPLACED, RawRecord, Refusal
from streamstate.processing.limits import Limits, TimestampLimit
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Commit, Origin, Snapshot, TopicPartition
from streamstate.testing import Driver
from tests.laws.failing_store import FailingStore
from tests.laws.protocol import BROKEN, JOIN, TALLY, Case, Tagged, usable

PARTITIONS = 2

partitions = st.integers(0, PARTITIONS - 1)
indices = st.integers(0, 20)
keys = st.sampled_from([b"a", b"b", b"c", b""])
contents = st.sampled_from([b"1", b"20", b"300", b"north", b"south", b"broken"])
NewRecord = tuple[int, bytes, bytes, int, int]
records = st.tuples(indices, keys, contents, st.integers(0, 9), st.integers(0, 2))
"""The number of a topic, key, value, timestamp, and the gap in the offsets before it."""

Positions = Mapping[str, int]
Letters = defaultdict[TopicPartition, dict[int, Refusal]]
"""By place and offset: the dead letters that say that an operator skips a record."""

History = dict[int, tuple[Positions, ...]]
"""By partition: where it stood after each commit that the store took."""


class Fate(Enum):
    """What becomes of a commit on its way: `HELD` may arrive later, whoever writes then."""

    APPLIED = "applied"
    LOST = "lost"
    REPLY_LOST = "applied, and the reply lost"
    TWICE = "sent again after a lost reply"
    HELD = "held"
    HALF_APPLIED = "applied up to some operation, where the store breaks"


fates = st.sampled_from(Fate)
sizes = st.integers(1, 6)
copies = st.integers(0, 3)


class Unanswered(Exception):
    """The writer cannot know what became of its commit."""


class Network(FailingStore):
    """The store behind a network, which remembers what was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.fate = Fate.APPLIED
        self.held: list[Commit] = []
        self.history: History = dict.fromkeys(range(PARTITIONS), ())
        self.incomplete: frozenset[int] = frozenset()
        self.applied = 0

    def commit(self, *commits: Commit) -> None:
        (commit,) = commits
        match self.fate:
            case Fate.HALF_APPLIED:
                self.break_at(commit)
                raise Unanswered
            case Fate.LOST:
                raise Unanswered
            case Fate.HELD:
                self.held.append(commit)
                raise Unanswered
        self.arrive(commit)
        match self.fate:
            case Fate.REPLY_LOST:
                raise Unanswered
            case Fate.TWICE:
                self.arrive(commit)

    def break_at(self, commit: Commit) -> None:
        try:
            super().commit(replace(commit, operations=[*commit.operations[: self.applied], BROKEN]))
        except AttributeError:
            self.incomplete |= {commit.claim.partition}

    def arrive(self, commit: Commit) -> None:
        super().commit(commit)
        partition = commit.claim.partition
        self.history[partition] += (self.read({partition: []})[partition].positions,)


class Logs(Topics):
    """The records of each place. Those before `begin` are deleted, and stay here for the recount."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.records: dict[TopicPartition, list[RawRecord]] = {(t, p): [] for t in topics for p in range(PARTITIONS)}
        self.begin = dict.fromkeys(self.records, 0)

    def begins(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.begin[place] for place in places}

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: max(self.begin[place], self._next(place)) for place in places}

    def _next(self, place: TopicPartition) -> int:
        return self.records[place][-1][0] + 1 if self.records[place] else 0

    def left(self, place: TopicPartition) -> list[RawRecord]:
        return [record for record in self.records[place] if record[0] >= self.begin[place]]


class Query:
    """A Spark query of one instance: it goes on from where it has read, whatever the store holds by now.

    Raises `Misconfigured` when the logs are not those of the state.
    """

    def __init__(self, case: Case, store: MemoryStore, held: set[int], logs: Logs, letters: Letters) -> None:
        self.driver = Driver(case.app, store, PARTITIONS, held)
        origins = {topic: Origin(topic, PARTITIONS) for topic in case.app.topics}
        claims = Claims(case.app, store, logs, "driver:1", truncated=(), skip_lost=False)
        self.driver.claims, self.position = claims.claim(held, origins)
        refused = {place: dict(refusals) for place, refusals in letters.items()}
        for partition, claim in self.driver.claims.items():
            for (topic, offset), reason in claim.skips.items():
                refused.setdefault((topic, partition), {})[offset] = Refusal("skip", reason)
        self.driver.limits = Limits(timestamps=TimestampLimit(refused=refused))


class CommitProtocol(RuleBasedStateMachine):
    case: ClassVar[Case]

    def __init__(self) -> None:
        super().__init__()
        self.logs = Logs(self.case.app.topics)
        self.log = self.logs.records
        self.store = Network()
        self.queries: list[Query] = []
        self.letters: Letters = defaultdict(dict)
        self.pending: set[tuple[str, int, int]] = set()
        self.save()
        self.emitted: set[tuple[str, int, int]] = set()

    @rule(held=st.sampled_from([{0, 1}, {0, 1}, {0}, {1}]))
    def start(self, held: set[int]) -> None:
        """An instance starts, comes back without its checkpoint, or gets partitions that another one still writes."""
        self._start(held)

    def _start(self, held: set[int]) -> Query | None:
        """The query over `held`; None when it is refused."""
        try:
            self.queries.append(Query(self.case, self.store, held, self.logs, self.letters))
        except (Misconfigured, IncompleteCommit):
            return None
        return self.queries[-1]

    @precondition(lambda self: self.store.incomplete)
    @rule(number=indices)
    def claim_half_a_commit(self, number: int) -> None:
        """An instance starts."""
        with pytest.raises(IncompleteCommit):
            Query(self.case, self.store, {self._incomplete(number)}, self.logs, self.letters)

    @rule(partition=partitions, records=st.lists(records, max_size=6), number=indices, most=sizes)
    def fold(self, partition: int, records: list[NewRecord], number: int, most: int) -> None:
        """Records come, and one of the instances that believe to own the partition runs a task."""
        self._produce(partition, records)
        self._task(partition, number, most, Fate.APPLIED)

    @rule(
        partition=partitions,
        records=st.lists(records, max_size=6),
        number=indices,
        most=sizes,
        fate=fates,
        copy=copies,
        applied=st.integers(0, 8),
    )
    def fold_under_fire(
        self, partition: int, records: list[NewRecord], number: int, most: int, fate: Fate, copy: int, applied: int
    ) -> None:
        """The same, and the commit may not arrive as it should; or a task comes twice: with `copy` it reads again."""
        self._produce(partition, records)
        self.store.applied = applied
        self._task(partition, number, most, fate, copy)

    def _produce(self, partition: int, records: list[NewRecord]) -> None:
        topics = self.case.app.topics
        for number, key, value, time, gap in records:
            log = self.log[topics[number % len(topics)], partition]
            log.append(((log[-1][0] + 1 if log else 0) + gap, time, key, value))

    def _task(self, partition: int, number: int, most: int, fate: Fate, copy: int = 0) -> None:
        writers = [query for query in self.queries if partition in query.driver.claims]
        query = writers[number % len(writers)] if writers else self._start({partition})
        if query is None:
            return
        raw = {topic: self._unread(query, topic, partition, most, copy) for topic in self.case.app.topics}
        self.store.fate = fate
        try:
            query.driver.feed(partition, raw)
        except (Fenced, IncompleteCommit, Unanswered):
            self.queries.remove(query)
        else:
            for topic, records in raw.items():
                if records:
                    query.position[topic, partition] = max(query.position[topic, partition], records[-1][0] + 1)
        self.emitted |= {(emit.cause.topic, partition, emit.cause.offset) for emit in query.driver.emitted}
        query.driver.emitted.clear()
        for letter in query.driver.dead:
            if letter.stage == "skip":
                self.letters[letter.topic, partition][letter.offset] = Refusal("skip", str(letter.error))
                self.pending.discard((letter.topic, partition, letter.offset))
        query.driver.dead.clear()

    def _unread(self, query: Query, topic: str, partition: int, most: int, copy: int) -> list[RawRecord]:
        start = query.position[topic, partition] - copy
        return [record for record in self.logs.left((topic, partition)) if record[0] >= start][:most]

    @precondition(lambda self: self.store.held)
    @rule(number=indices)
    def a_held_commit_arrives(self, number: int) -> None:
        with suppress(Fenced, IncompleteCommit):
            self.store.arrive(self.store.held[number % len(self.store.held)])

    @rule(partition=partitions, number=indices, behind=st.integers(-2, 4))
    def skip(self, partition: int, number: int, behind: int) -> None:
        """An operator skips a record that is not committed, whatever the queries have read by now."""
        topics = self.case.app.topics
        topic = topics[number % len(topics)]
        if partition in self.store.incomplete:
            with pytest.raises(IncompleteCommit):
                self.store.skip(partition, topic, 0, "poison")
            return
        position = self.store.read({partition: []})[partition].positions.get(topic, 0)
        offset = max(0, position + behind)
        if offset < position:
            with pytest.raises(Declined):
                self.store.skip(partition, topic, offset, "poison")
            return
        self.store.skip(partition, topic, offset, "poison")
        if offset not in self.letters[topic, partition]:
            self.pending.add((topic, partition, offset))

    def _lose_skips(self) -> None:
        """What no letter says yet may be lost with the state: the streams are started again before it is lost."""
        if self.pending:
            self.queries.clear()
            self.store.held.clear()

    @rule(partition=partitions, number=indices, count=sizes)
    def the_log_begins_later(self, partition: int, number: int, count: int) -> None:
        """Retention deletes records, read or not; those who read are started again."""
        topics = self.case.app.topics
        place = topics[number % len(topics)], partition
        if deleted := self.logs.left(place)[:count]:
            self.logs.begin[place] = deleted[-1][0] + 1
            self.queries = [query for query in self.queries if partition not in query.driver.claims]

    @rule(partition=partitions, number=indices, count=sizes)
    def the_end_goes_back(self, partition: int, number: int, count: int) -> None:
        """A broker comes back without its last records; a state that has read them is refused, and emptied then."""
        topics = self.case.app.topics
        place = topics[number % len(topics)], partition
        if self.store.incomplete:
            return
        lost = self.logs.left(place)[-count:]
        del self.log[place][len(self.log[place]) - len(lost) :]
        # Other records get their offsets.
        for offset, *_ in lost:
            self.letters[place].pop(offset, None)
        self.queries.clear()
        self.store.held.clear()
        position = self.store.read({partition: []})[partition].positions.get(place[0], 0)
        if position > self.logs.ends([place])[place]:
            assert self._start({partition}) is None
            self.empty()
        # An earlier copy of the state may have read them too.
        self.save()

    @rule()
    def save(self) -> None:
        self.saved = self.store.save(), dict(self.store.history), self.store.incomplete

    @rule()
    def rewind(self) -> None:
        """The server comes back, or a replica takes over, without what came after the last `save`."""
        self._lose_skips()
        self.store.restart(self.saved[0])
        self.store.history, self.store.incomplete = dict(self.saved[1]), self.saved[2]

    @rule()
    def empty(self) -> None:
        self._lose_skips()
        self.store.empty()
        self.store.history = dict.fromkeys(range(PARTITIONS), ())
        self.store.incomplete = frozenset()

    @precondition(lambda self: self.store.incomplete)
    @rule(number=indices)
    def delete_half_a_commit(self, number: int) -> None:
        """An operator deletes the keys of the partition."""
        self._lose_skips()
        partition = self._incomplete(number)
        self.store.delete(partition)
        self.store.history[partition] = ()
        self.store.incomplete -= {partition}

    def _incomplete(self, number: int) -> int:
        return sorted(self.store.incomplete)[number % len(self.store.incomplete)]

    @invariant()
    def half_a_commit_is_not_read(self) -> None:
        for partition in self.store.incomplete:
            with pytest.raises(IncompleteCommit):
                self.store.read({partition: self.case.reads})

    @invariant()
    def the_state_is_a_recount(self) -> None:
        complete = set(range(PARTITIONS)) - self.store.incomplete
        for partition, snapshot in self.store.read(dict.fromkeys(complete, self.case.reads)).items():
            records = self._committed(partition)
            folded = [record for record in records if self._usable(partition, record)]
            assert snapshot.values == self.case.recount(folded)
            self._counters_agree(partition, snapshot, records)
            self._positions_agree(partition, snapshot)

    @invariant()
    def what_is_committed_was_sent_out(self) -> None:
        for partition in range(PARTITIONS):
            for topic, record in self._committed(partition):
                if topic != "regions" and self._usable(partition, (topic, record)):
                    assert (topic, partition, record[0]) in self.emitted

    def _usable(self, partition: int, tagged: Tagged) -> bool:
        topic, (offset, _, key, value) = tagged
        return usable(topic, key, value) and offset not in self.letters[topic, partition]

    def _committed(self, partition: int) -> list[Tagged]:
        """The records below the stored offsets, commit by commit, each commit's topics merged by stream time."""
        committed: list[Tagged] = []
        reached = dict.fromkeys(self.case.app.topics, 0)
        for positions in self.store.history[partition]:
            placed: list[tuple[int, int, int, Tagged]] = []
            for rank, topic in enumerate(self.case.app.topics):
                time = 0
                for record in self.log[topic, partition]:
                    if self._usable(partition, (topic, record)):
                        time = max(time, record[1])
                    if reached[topic] <= record[0] < positions.get(topic, 0):
                        placed.append((time, rank, record[0], (topic, record)))
            committed += [tagged for *_, tagged in sorted(placed, key=lambda entry: entry[:3])]
            reached |= positions
        return committed

    def _counters_agree(self, partition: int, snapshot: Snapshot, records: list[Tagged]) -> None:
        keys = [record[2] or b"" for topic, record in records if self._usable(partition, (topic, record))]
        misplaced = sum(partition_of(key, PARTITIONS) != partition for key in keys)
        expected = {DEAD: len(records) - len(keys), MISPLACED: misplaced}
        assert snapshot.counters == {name: count for name, count in expected.items() if count}

    def _positions_agree(self, partition: int, snapshot: Snapshot) -> None:
        history = self.store.history[partition]
        assert snapshot.positions == (history[-1] if history else {})
        for topic, position in snapshot.positions.items():
            before = [record for record in self.log[topic, partition] if record[0] < position]
            times = [record[1] for record in before if self._usable(partition, (topic, record))]
            assert snapshot.times[topic] == max(times, default=0)


class Tally(CommitProtocol):
    case = TALLY


class Join(CommitProtocol):
    case = JOIN


TestTally = Tally.TestCase
TestJoin = Join.TestCase
TestTally.settings = TestJoin.settings = settings(stateful_step_count=40, deadline=None)
