"""The commit protocol as a model: whatever is lost, repeated, late or rewound, the state is a recount of the topics.

Hypothesis invents histories: 150 of each app here, 50,000 of each by `make nightly`.
"""

from collections import defaultdict
from contextlib import suppress
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamstate.errors import Declined, Fenced, IncompleteCommit, Misconfigured
from streamstate.keys import partition_of
from streamstate.processing.decode import DEAD, DEAD_FOR, MISPLACED, RawRecord, Refusal, reasons
from streamstate.state.store import Snapshot
from tests.laws.network import PARTITIONS, Fate, Letters, Logs, Network, Query, Unanswered
from tests.laws.protocol import JOIN, TALLY, WORDS, Case, Tagged, usable

partitions = st.integers(0, PARTITIONS - 1)
indices = st.integers(0, 20)
keys = st.sampled_from([b"a", b"b", b"c", b""])
contents = st.sampled_from([b"1", b"20", b"300", b"north", b"south", b"broken"])
NewRecord = tuple[int, bytes, bytes, int, int]
records = st.tuples(indices, keys, contents, st.integers(0, 9), st.integers(0, 2))
"""The number of a topic, key, value, timestamp, and the gap in the offsets before it."""

fates = st.sampled_from(Fate)
sizes = st.integers(1, 6)
copies = st.integers(0, 3)


class CommitProtocol(RuleBasedStateMachine):
    """`case` is a release, and `later` the next one, of which an instance may be: a topic is added, or removed."""

    case: ClassVar[Case]

    def __init__(self) -> None:
        super().__init__()
        self.later = self.case.later
        self.topics = self.later.app.topics
        self.logs = Logs(self.topics)
        self.log = self.logs.records
        self.store = Network()
        self.queries: list[Query] = []
        self.letters: Letters = defaultdict(dict)
        self.pending: set[tuple[str, int, int]] = set()
        self.save()
        self.emitted: set[tuple[str, int, int]] = set()

    @rule(held=st.sampled_from([{0, 1}, {0, 1}, {0}, {1}]), later=st.booleans())
    def start(self, held: set[int], later: bool) -> None:
        """An instance starts, comes back without its checkpoint, or gets partitions that another one still writes."""
        self._start(held, self.later if later else self.case)

    def _start(self, held: set[int], release: Case) -> Query | None:
        """The query over `held`; None when it is refused."""
        try:
            self.queries.append(Query(release.app, self.store, held, self.logs, self.letters))
        except (Misconfigured, IncompleteCommit, Unanswered):
            return None
        return self.queries[-1]

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
        for number, key, value, time, gap in records:
            log = self.log[self._topic(number), partition]
            log.append(((log[-1][0] + 1 if log else 0) + gap, time, key, value))

    def _task(self, partition: int, number: int, most: int, fate: Fate, copy: int = 0) -> None:
        writers = [query for query in self.queries if partition in query.driver.claims]
        query = writers[number % len(writers)] if writers else self._start({partition}, self.case)
        if query is None:
            return
        raw = {topic: self._unread(query, topic, partition, most, copy) for topic in query.driver.app.topics}
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
        with suppress(Fenced, IncompleteCommit, Unanswered):
            self.store.arrive(self.store.held[number % len(self.store.held)])

    @rule(partition=partitions, number=indices, behind=st.integers(-2, 4))
    def skip(self, partition: int, number: int, behind: int) -> None:
        """An operator skips a record that is not committed, whatever the queries have read by now."""
        topic = self._topic(number)
        if partition in self.store.moving:
            return
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
        if any(positions.get(topic, 0) > offset for positions in self.saved[1][partition]):
            # An earlier copy of the state has the record, so after a skip the state must not go back to the copy.
            self.save()

    def _lose_skips(self) -> None:
        """What no letter says yet may be lost with the state: the streams are started again before it is lost."""
        if self.pending:
            self.queries.clear()
            self.store.held.clear()

    @rule(partition=partitions, number=indices, count=sizes)
    def the_log_begins_later(self, partition: int, number: int, count: int) -> None:
        """Retention deletes records, read or not; readers are started again."""
        place = self._topic(number), partition
        if deleted := self.logs.left(place)[:count]:
            self.logs.begin[place] = deleted[-1][0] + 1
            self.queries = [query for query in self.queries if partition not in query.driver.claims]

    @rule(partition=partitions, number=indices, count=sizes)
    def the_end_goes_back(self, partition: int, number: int, count: int) -> None:
        """A broker comes back without its last records; a state that has read them is refused, and emptied then."""
        place = self._topic(number), partition
        if self.store.incomplete or self.store.moving:
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
            assert self._start({partition}, self.later) is None
            self.empty()
        # An earlier copy of the state may have read them too.
        self.save()

    @rule()
    def save(self) -> None:
        self.saved = self.store.saved()

    @rule()
    def rewind(self) -> None:
        """The server comes back, or a replica takes over, without what came after the last `save`."""
        self._lose_skips()
        self.store.rewind(self.saved)

    @rule()
    def empty(self) -> None:
        self._lose_skips()
        self.store.forget(range(PARTITIONS))

    @precondition(lambda self: self.store.incomplete - self.store.moving)
    @rule(number=indices)
    def delete_half_a_commit(self, number: int) -> None:
        """An operator deletes the keys of the partition."""
        self._lose_skips()
        self.store.forget({self._incomplete(number)})

    @rule(partition=partitions)
    def a_slot_starts_to_move(self, partition: int) -> None:
        self.store.moving |= {partition}

    @precondition(lambda self: self.store.moving)
    @rule(number=indices)
    def a_slot_has_moved(self, number: int) -> None:
        self.store.move(sorted(self.store.moving)[number % len(self.store.moving)])

    def _topic(self, number: int) -> str:
        return self.topics[number % len(self.topics)]

    def _incomplete(self, number: int) -> int:
        partitions = sorted(self.store.incomplete - self.store.moving)
        return partitions[number % len(partitions)]

    @invariant()
    def half_a_commit_is_not_read(self) -> None:
        for partition in self.store.incomplete - self.store.moving:
            with pytest.raises(IncompleteCommit):
                self.store.read({partition: self.case.reads})

    @invariant()
    def the_state_is_a_recount(self) -> None:
        complete = set(range(PARTITIONS)) - self.store.incomplete - self.store.moving
        for partition, snapshot in self.store.read(dict.fromkeys(complete, self.later.reads)).items():
            records = self._committed(partition)
            folded = [record for record in records if self._usable(partition, record)]
            assert snapshot.values == self.later.recount(folded)
            self._counters_agree(partition, snapshot, records)
            self._positions_agree(partition, snapshot)

    @invariant()
    def what_is_committed_was_sent_out(self) -> None:
        for partition in range(PARTITIONS):
            for topic, record in self._committed(partition):
                if topic not in ("regions", WORDS) and self._usable(partition, (topic, record)):
                    assert (topic, partition, record[0]) in self.emitted

    def _usable(self, partition: int, tagged: Tagged) -> bool:
        topic, (offset, _, key, value) = tagged
        return usable(topic, key, value) and offset not in self.letters[topic, partition]

    def _committed(self, partition: int) -> list[Tagged]:
        """The records below the stored offsets, commit by commit, each commit's topics merged by stream time."""
        committed: list[Tagged] = []
        reached = dict.fromkeys(self.topics, 0)
        for positions in self.store.history[partition]:
            placed: list[tuple[int, int, int, Tagged]] = []
            for rank, topic in enumerate(self.topics):
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
        folded = [tagged for tagged in records if self._usable(partition, tagged)]
        keys = [record[2] or b"" for _, record in folded]
        misplaced = sum(partition_of(key, PARTITIONS) != partition for key in keys)
        words = sum(topic == WORDS for topic, _ in folded)
        expected = {DEAD: len(records) - len(keys), MISPLACED: misplaced, WORDS: words}
        counted = {name: count for name, count in snapshot.counters.items() if not name.startswith(DEAD_FOR)}
        assert counted == {name: count for name, count in expected.items() if count}
        assert sum(reasons(snapshot.counters).values()) == expected[DEAD]

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
TestTally.settings = TestJoin.settings = settings(stateful_step_count=40)
