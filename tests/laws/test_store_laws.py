"""Laws of the stores in memory and in Redis: claims, commits, positions."""

from dataclasses import replace

import pytest
from msgspec import structs

from streamstate.errors import Declined, Fenced, IncompleteCommit, Superseded
from streamstate.state.operations import Put, Value
from streamstate.state.store import FORMAT, OPEN, Allowance, Commit, OffsetAdvance, Origin, Snapshot, Store
from tests.laws.conftest import Subject
from tests.laws.protocol import BROKEN
from tests.laws.stored import AFTER_STEP, EMPTY, READS, STEP, A, B, T, read_snapshot, step


def refused(store: Store, commit: Commit, partition: int = 0) -> None:
    """`commit` raises Fenced and changes nothing."""
    before = read_snapshot(store, partition)
    with pytest.raises(Fenced):
        store.commit(commit)
    assert read_snapshot(store, partition) == before


class TestEveryStore:
    def test_a_commit_applies_operations_offset_and_counters_together(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(Commit(claim, [OffsetAdvance(T, None, 10)], STEP, {"dead_letters": 2}))
        expected = Snapshot(
            A, claim.epoch, {T: 10}, {T: 0}, {T: 10}, {"dead_letters": 2}, {}, AFTER_STEP, format=FORMAT
        )
        # Only Redis sends bytes.
        assert structs.replace(read_snapshot(store), size=0) == expected

    def test_a_repeated_commit_is_refused_and_changes_nothing(self, store: Store) -> None:
        commit = step(store.claim(0, A, {T: 10}), STEP)
        store.commit(commit)
        refused(store, commit)
        assert read_snapshot(store).values == AFTER_STEP

    @pytest.mark.parametrize("applied", range(len(STEP) + 1))
    def test_nothing_is_written_on_top_of_half_a_commit_or_read_of_it(self, subject: Subject, applied: int) -> None:
        store = subject.store
        claim, other = store.claim(0, A, {T: 10}), store.claim(1, A, {T: 10})
        commit = step(claim, [*STEP[:applied], BROKEN, *STEP[applied:]])
        with pytest.raises(Exception):  # noqa: B017, PT011  # whatever a store that breaks may raise
            store.commit(commit)
        for verb in (
            lambda: store.commit(commit),
            lambda: store.commit(step(claim, [])),
            lambda: store.claim(0, A, {T: 10}),
            lambda: store.read({1: READS, 0: []}),
            lambda: store.skip(0, T, 5, "why"),
        ):
            with pytest.raises(IncompleteCommit, match=r":0}, .* `streamstate reset SERVICE --partition 0"):
                verb()
        store.commit(step(other, STEP))
        assert read_snapshot(store, 1).values == AFTER_STEP
        subject.empty()
        store.commit(step(store.claim(0, A, {T: 10}), STEP))
        assert read_snapshot(store).values == AFTER_STEP

    def test_a_commit_follows_the_one_before(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, STEP, None, 3))
        refused(store, step(claim, STEP, None, 4))
        refused(store, step(claim, STEP, 2, 4))
        refused(store, step(claim, STEP, 4, 5))
        store.commit(step(claim, [Put("v", "two")], 3, 4))
        assert (read_snapshot(store).positions, read_snapshot(store).values[0]) == ({T: 4}, "two")

    def test_an_open_target_is_replaced_by_a_later_claim(self, store: Store) -> None:
        store.commit(step(store.claim(0, A, {T: OPEN}), [], None, 3))
        assert read_snapshot(store).targets == {T: OPEN}
        assert not read_snapshot(store).ready([T])
        for end in (10, 20):
            store.claim(0, A, {T: end})
            assert read_snapshot(store).targets == {T: 10}

    def test_offset_0_is_an_offset(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [], None, 0))
        refused(store, step(claim, STEP, None, 1))
        store.commit(step(claim, STEP, 0, 1))
        assert read_snapshot(store).positions == {T: 1}

    def test_an_earlier_claim_is_refused(self, store: Store) -> None:
        earlier = store.claim(0, A, {T: 10})
        later = store.claim(0, B, {T: 10})
        assert later.epoch > earlier.epoch
        refused(store, step(earlier, STEP))
        store.commit(step(later, STEP))
        assert read_snapshot(store).owner == B

    def test_an_epoch_that_was_never_given_is_refused(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        refused(store, step(replace(claim, epoch=claim.epoch + 1), STEP))
        refused(store, step(replace(claim, epoch=0), STEP))

    def test_a_partition_that_nobody_claimed_is_refused(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        refused(store, step(replace(claim, partition=1), STEP), 1)
        refused(store, step(replace(claim, partition=1, epoch=0), STEP), 1)

    def test_after_a_restart_of_the_server_an_earlier_claim_is_refused(self, subject: Subject) -> None:
        claim = subject.store.claim(0, A, {T: 10})
        subject.store.commit(step(claim, STEP))
        claim = subject.restart(claim)
        refused(subject.store, step(claim, STEP, 1, 2))
        again = subject.store.claim(0, A, {T: 10})
        assert again.positions == {T: 1}
        subject.store.commit(step(again, [Put("v", "two")], 1, 2))

    def test_an_emptied_store_refuses_an_earlier_claim(self, subject: Subject) -> None:
        claim = subject.store.claim(0, A, {T: 10})
        subject.store.commit(step(claim, STEP, None, 3))
        subject.empty()
        refused(subject.store, step(claim, STEP, 3, 4))
        refused(subject.store, step(claim, STEP, None, 4))
        again = subject.store.claim(0, A, {T: 20})
        refused(subject.store, step(claim, STEP, None, 4))
        assert again.positions == {}
        assert read_snapshot(subject.store).targets == {T: 20}

    def test_epochs_rise_over_an_emptied_store(self, subject: Subject) -> None:
        epochs = []
        for _ in range(20):
            epochs.append(subject.store.claim(0, A, {}).epoch)
            subject.empty()
        assert epochs == sorted(set(epochs))

    def test_a_claim_tells_the_stored_positions_of_its_topics(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10, "other": 10})
        assert claim.positions == {}
        store.commit(Commit(claim, [OffsetAdvance(T, None, 5)], []))
        store.commit(Commit(claim, [OffsetAdvance("other", None, 0)], []))
        assert store.claim(0, B, {T: 10, "other": 10, "third": 10}).positions == {T: 5, "other": 0}

    def test_a_commit_moves_several_topics_or_none(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10, "other": 10})
        store.commit(Commit(claim, [OffsetAdvance(T, None, 5, 50), OffsetAdvance("other", None, 7, 70)], STEP))
        refused(store, Commit(claim, [OffsetAdvance(T, 5, 6), OffsetAdvance("other", 6, 8)], STEP))
        refused(store, Commit(claim, [OffsetAdvance(T, None, 6), OffsetAdvance("other", 7, 8)], STEP))
        assert (read_snapshot(store).positions, read_snapshot(store).times) == (
            {T: 5, "other": 7},
            {T: 50, "other": 70},
        )

    def test_stream_times_are_kept_by_topic_and_told_to_the_next_writer(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10, "other": 10})
        store.commit(Commit(claim, [OffsetAdvance(T, None, 5, 1_750_000_000_000)], []))
        store.commit(Commit(claim, [OffsetAdvance("other", None, 0, 3)], []))
        later = store.claim(0, B, {T: 10, "other": 10, "third": 10})
        assert later.times == {T: 1_750_000_000_000, "other": 3}
        assert read_snapshot(store).position_and_time(T) == (5, 1_750_000_000_000)
        assert read_snapshot(store).position_and_time("third") == (None, 0)

    def test_counters_add_up(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(Commit(claim, [OffsetAdvance(T, None, 1)], [], {"dead_letters": 2}))
        store.commit(Commit(claim, [OffsetAdvance(T, 1, 2)], [], {"dead_letters": 3, "misplaced_keys": 1}))
        assert read_snapshot(store).counters == {"dead_letters": 5, "misplaced_keys": 1}

    def test_what_was_never_written_is_absent(self, store: Store) -> None:
        assert read_snapshot(store) == Snapshot(None, 0, {}, {}, {}, {}, {}, EMPTY)
        assert not read_snapshot(store).ready([T])

    def test_several_partitions_are_read_at_once(self, store: Store) -> None:
        claims = {partition: store.claim(partition, A, {T: 1}) for partition in range(3)}
        for partition, claim in claims.items():
            store.commit(step(claim, [Put("v", str(partition)), Put("w", "w")]))
        snapshots = store.read({2: [Value("w"), Value("v")], 0: [Value("v")], 1: [], 7: [Value("v")]})
        values = {partition: list(snapshot.values) for partition, snapshot in snapshots.items()}
        assert values == {2: ["w", "2"], 0: ["0"], 1: [], 7: [None]}
        assert store.read({}) == {}

    def test_a_state_built_from_nothing_is_ready_at_its_targets(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 100, "other": 0})
        assert (read_snapshot(store).progress([T]), read_snapshot(store).ready([T])) == (0.0, False)
        store.commit(step(claim, [], None, 25))
        assert (read_snapshot(store).progress([T]), read_snapshot(store).ready([T])) == (0.25, False)
        store.commit(step(claim, [], 25, 100))
        assert (read_snapshot(store).progress([T]), read_snapshot(store).ready([T])) == (1.0, True)
        store.commit(step(claim, [], 100, 150))
        assert (read_snapshot(store).progress([T]), read_snapshot(store).ready([T])) == (1.0, True)

    def test_targets_are_those_of_the_first_claim(self, store: Store) -> None:
        store.claim(0, A, {T: 100})
        claim = store.claim(0, B, {T: 200})
        assert read_snapshot(store).targets == {T: 100}
        store.commit(step(claim, [], None, 100))
        store.claim(0, A, {T: 300, "new": 7})
        assert read_snapshot(store).targets == {T: 100, "new": 7}

    def test_origins_are_those_of_the_first_claim_that_had_them(self, store: Store) -> None:
        first, other = Origin("u/1+", 8), Origin("w", 12)
        store.claim(0, A, {T: 0})
        assert read_snapshot(store).origins == {}
        store.claim(0, A, {T: 0}, {T: first})
        claim = store.claim(0, B, {T: 0}, {T: other, "new": other})
        store.commit(step(claim, STEP))
        assert read_snapshot(store).origins == {T: first, "new": other}

    def test_the_beginning_is_that_of_the_last_claim_before_anything_is_stored(self, store: Store) -> None:
        store.claim(0, A, {T: 9})
        assert read_snapshot(store).begins == {}
        store.claim(0, A, {T: 9}, begins={T: 0})
        claim = store.claim(0, B, {T: 9, "other": 9}, begins={T: 4, "other": 2})
        store.commit(step(claim, [], None, 5))
        store.claim(0, B, {T: 9, "other": 9}, begins={T: 8, "other": 8})
        assert read_snapshot(store).begins == {T: 4, "other": 8}

    def test_a_state_that_has_no_beginning_and_no_folds_takes_the_next_folds(self, store: Store) -> None:
        store.commit(step(store.claim(0, A, {T: 9}), []))
        store.claim(0, A, {T: 9}, begins={T: 1}, folds={T: "one"})
        store.claim(0, A, {T: 9}, begins={T: 2}, folds={T: "two"})
        assert (read_snapshot(store).begins, read_snapshot(store).folds) == ({}, {T: "one"})

    def test_folds_are_those_that_made_what_is_stored(self, store: Store) -> None:
        store.claim(0, A, {T: 9}, folds={T: "one", "other": "one"})
        claim = store.claim(0, A, {T: 9}, folds={T: "two", "other": "two"})
        store.commit(step(claim, []))
        store.claim(0, A, {T: 9}, folds={T: "three", "other": "three", "new": "three"})
        assert read_snapshot(store).folds == {T: "two", "other": "three", "new": "three"}

    def test_a_skipped_record_is_told_to_the_next_claim_and_no_earlier_one_commits(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, STEP, None, 4))
        store.skip(0, T, 4, "poison, as Ä says: twice")
        store.skip(0, "other:topic", 7, "why")
        refused(store, step(claim, STEP, 4, 5))
        again = store.claim(0, A, {T: 10})
        assert again.skips == {(T, 4): "poison, as Ä says: twice", ("other:topic", 7): "why"}
        store.commit(step(again, STEP, 4, 5))

    def test_a_record_that_is_committed_is_not_skipped(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, STEP, None, 4))
        with pytest.raises(
            Declined, match=r"topic:0 is committed up to 4, .* `streamstate reset SERVICE --partition 0`"
        ):
            store.skip(0, T, 3, "why")
        store.commit(step(claim, STEP, 4, 5))
        assert store.claim(0, A, {T: 10}).skips == {}

    def test_what_a_state_may_lack_is_seen_with_it(self, store: Store) -> None:
        store.allow(0, T, Allowance(60, "retention, in June"))
        assert read_snapshot(store).allowances == {T: Allowance(60, "retention, in June")}
        store.allow(0, T, Allowance(80, "again"))
        store.commit(step(store.claim(0, A, {T: 10}), STEP))
        assert read_snapshot(store).allowances == {T: Allowance(80, "again")}


class TestFences:
    def test_a_fence_refuses_outputs_that_were_published_by_an_earlier_record(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(replace(step(claim, STEP), record=3))
        assert store.read({0: ()})[0].record == 3
        assert store.fence([0], 5)[0].positions == {T: 1}
        before = read_snapshot(store, 0)
        for earlier in (0, 4):
            with pytest.raises(Superseded):
                store.commit(replace(step(claim, STEP, 1, 2), record=earlier))
        assert read_snapshot(store, 0) == before
        store.commit(replace(step(claim, STEP, 1, 2), record=5))
        assert store.fence([0], 2)[0].record == 5
        store.commit(step(claim, [], 2, 3))

    def test_a_partition_without_a_claim_stays_unfenced(self, store: Store) -> None:
        assert store.fence([0], 5)[0].record == 0
        store.commit(replace(step(store.claim(0, A, {T: 10}), STEP), record=4))
