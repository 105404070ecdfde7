"""What every store keeps to, the one in memory and the real one: the values that operations make and reads answer."""

import pytest

from streamstate.state.operations import (
    LARGE_NUMBERS,
    Append,
    Between,
    Delete,
    DeleteTimeline,
    ExpireBefore,
    Field,
    IncrementScores,
    Insert,
    Members,
    Merge,
    Newest,
    Operation,
    PushRecent,
    Put,
    Read,
    Remove,
    Since,
    Top,
    UpdateIndex,
    Value,
)
from streamstate.state.store import Store
from tests.laws.stored import STEP, A, T, read_snapshot, step


class TestEveryStore:
    @pytest.mark.parametrize(
        "first",
        [
            IncrementScores("k", {"a": 1}),
            PushRecent("k", {"a": 1}, 5),
            Merge("k", add={"a": 1}),
            Append("k", 1, "a", 5),
        ],
    )
    def test_a_value_replaces_and_delete_removes_whatever_is_there(self, store: Store, first: Operation) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [first, Put("k", "text")], None, 1))
        assert read_snapshot(store, reads=[Value("k")]).values == ["text"]
        store.commit(step(claim, [Delete("k"), first, Delete("k"), Delete("never")], 1, 2))
        assert read_snapshot(store, reads=[Value("k")]).values == [None]

    @pytest.mark.parametrize("value", ["", "é\0🎵", "x" * 300, "x" * 70_000])
    def test_a_value_is_any_text(self, store: Store, value: str) -> None:
        store.commit(step(store.claim(0, A, {T: 10}), [Put("v", value)]))
        assert read_snapshot(store).values[0] == value

    def test_a_field_may_be_added_to_and_bounded_in_one_merge(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(
            step(claim, [Merge("f", add={"x": 10}, least={"x": 3}), Merge("f", least={"y": 1}, most={"y": 4})])
        )
        assert read_snapshot(store).values[1] == {"x": 3, "y": 4}

    def test_one_merge_takes_any_number_of_fields(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        fields = {f"field {number}": number for number in range(10_000)}
        store.commit(step(claim, [Merge("f", add=fields)]))
        assert read_snapshot(store).values[1] == fields

    @pytest.mark.parametrize(
        "read", [Top("t", 0), Newest("n", 0), Since("l", 0, 0), Between("i:k", 0, 10, 0), Members("x", "", "", 0)]
    )
    def test_the_first_0_are_none(self, store: Store, read: Read) -> None:
        store.commit(step(store.claim(0, A, {T: 10}), STEP))
        assert read_snapshot(store, reads=[read]).values == [[]]

    def test_rankings_and_lists_order_ties_by_bytes(self, store: Store) -> None:
        members = ["", "\0", "B", "a", "é", "ﬀ", "𐐷"]
        claim = store.claim(0, A, {T: 10})
        store.commit(
            step(
                claim,
                [IncrementScores("t", dict.fromkeys(members, 1)), PushRecent("n", dict.fromkeys(members, 1), keep=6)],
            )
        )
        _, _, ranking, newest, *_ = read_snapshot(store).values
        assert [member for member, _ in ranking] == members
        assert [member for member, _ in newest] == members[:0:-1]

    def test_an_index_is_read_in_the_order_of_bytes_from_either_end(self, store: Store) -> None:
        members = ["", "\0", "B", "a", "a\0", "ab", "é", "ﬀ", "𐐷"]
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [UpdateIndex("x", members[::-1], []), UpdateIndex("x", ["a", "c"], ["c", "d"])]))
        ranges = [("", "", 4), ("a", "b", 9), ("a\0", "ab", 9), ("a", "a", 9), ("é", "", 9)]
        asked = [Members("x", *each, descending) for each in ranges for descending in (False, True)]
        assert read_snapshot(store, reads=[*asked, Members("none", "", "", 9)]).values == [
            *(["", "\0", "B", "a"], ["𐐷", "ﬀ", "é", "ab"]),
            *(["a", "a\0", "ab"], ["ab", "a\0", "a"]),
            *(["a\0"], ["a\0"], [], []),
            *(["é", "ﬀ", "𐐷"], ["𐐷", "ﬀ", "é"]),
            [],
        ]

    def test_an_index_takes_and_loses_any_number_of_members(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        members = [f"{number:05}" for number in range(10_000)]
        store.commit(step(claim, [UpdateIndex("x", members, members[1:])]))
        assert read_snapshot(store, reads=[Members("x", "", "", 9)]).values == [["00000"]]

    def test_a_list_keeps_its_newest(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [PushRecent("n", {"a": 3, "b": 1, "c": 2}, keep=2)], None, 1))
        store.commit(step(claim, [PushRecent("n", {"old": 0, "new": 4}, keep=2)], 1, 2))
        assert read_snapshot(store).values[3] == [("new", 4), ("a", 3)]

    @pytest.mark.parametrize("number", [2**53, -(2**53), 0, 2**31, 10**15])
    def test_whole_numbers_are_exact_to_2_to_the_53(self, store: Store, number: int) -> None:
        claim = store.claim(0, A, {T: 10})
        merge = Merge("f", add={"a": number}, least={"b": number}, most={"c": number})
        store.commit(step(claim, [merge, IncrementScores("t", {"m": number}), PushRecent("n", {"m": number}, keep=1)]))
        assert read_snapshot(store).values[1:4] == [dict.fromkeys("abc", number), [("m", number)], [("m", number)]]

    def test_a_large_number_is_counted_by_each_commit_that_writes_it(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        writes = [Merge("f", most={"n": 2**53}), Merge("f", most={"n": 0}), Merge("f", add={"n": -1})]
        for offset, merge in enumerate(writes):
            store.commit(step(claim, [merge], offset or None, offset + 1))
        assert read_snapshot(store).counters == {LARGE_NUMBERS: 2}
        store.commit(step(claim, [IncrementScores("t", {"m": 2**53})], 3, 4))
        store.commit(step(claim, [IncrementScores("t", {"m": 0})], 4, 5))
        assert read_snapshot(store).counters == {LARGE_NUMBERS: 4}

    def test_what_is_expired_is_not_read_however_much_it_is(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        keys = [str(number) for number in range(3_000)]
        long = Insert("i", "long", {str(time): time for time in range(3_000)})
        store.commit(step(claim, [long, *(Insert("i", key, {"x": 2, "y": 2_999}) for key in keys)], None, 1))
        reads = [Between("i:long", 0, 9_999, 9_999), *(Between(f"i:{key}", 0, 9_999, 9) for key in keys)]
        for offset in range(1, 9):
            store.commit(step(claim, [ExpireBefore("i", 2_999)], offset, offset + 1))
            assert read_snapshot(store, reads=reads).values == [[("2999", 2_999)], *[[("y", 2_999)]] * len(keys)]

    def test_one_field_is_read_alone(self, store: Store) -> None:
        store.commit(step(store.claim(0, A, {T: 10}), [Merge("f", add={"a": 2**53, "b": 0})]))
        reads = [Field("f", "a"), Field("f", "b"), Field("f", "c"), Field("none", "a")]
        assert read_snapshot(store, reads=reads).values == [2**53, 0, None, None]

    def test_a_log_lets_go_of_what_is_too_far_behind_its_last_entry(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Append("l", number, str(number), keep=10) for number in (1, 5, 11, 15)], None, 1))
        assert read_snapshot(store).values[4] == [(11, b"11"), (15, b"15")]
        store.commit(step(claim, [Append("l", 40, "40", keep=10)], 1, 2))
        assert read_snapshot(store).values[4] == [(40, b"40")]

    def test_an_entry_that_is_in_a_log_already_is_left_out(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        again = [Append("l", number, "again", keep=1) for number in (5, 4)]
        store.commit(step(claim, [Append("l", 5, "first", keep=10), *again, Put("v", "applied")]))
        assert (read_snapshot(store).values[4], read_snapshot(store).values[0]) == ([(5, b"first")], "applied")

    def test_a_log_is_read_on_from_any_number(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Append("l", number, str(number), keep=2**53) for number in (2, 9, 10, 2**53)]))
        reads = [Since("l", 2, 2), Since("l", 3, 1), Since("l", 10, 5), Since("l", 2**53, 5), Since("none", 0, 5)]
        logs = [[number for number, _ in entries] for entries in read_snapshot(store, reads=reads).values]
        assert logs == [[9, 10], [9], [2**53], [], []]

    def test_a_timeline_is_read_in_order_of_time_page_by_page(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Insert("i", "k", {"d": 3, "b": 1, "a": 2, "c": 2}), Insert("i", "other", {"x": 2})]))
        reads = [Between("i:k", 1, 3, 2, skip) for skip in (0, 2, 4)]
        pages = read_snapshot(store, reads=[*reads, Between("i:k", 2, 2, 9), Between("i:k", 3, 9, 9)]).values
        assert pages == [[("b", 1), ("a", 2)], [("c", 2)], [], [], [("d", 3)]]

    def test_a_long_timeline_is_read_from_any_place_among_equal_times(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        entries = {f"{number:03}": number // 50 for number in range(100)}
        store.commit(step(claim, [Insert("i", "k", entries)]))
        reads = [Between("i:k", 0, 2, 40, 7), Between("i:k", 1, 2, 100, 45), Between("i:k", 0, 1, 100)]
        pages = [[int(text) for text, _ in page] for page in read_snapshot(store, reads=reads).values]
        assert pages == [list(range(7, 47)), list(range(95, 100)), list(range(50))]

    def test_a_timeline_is_read_from_its_newest_entry_on(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        entries = {f"{number:03}": number // 50 for number in range(100)}
        store.commit(step(claim, [Insert("i", "k", entries), ExpireBefore("i", 1), Insert("i", "k", {"old": 0})]))
        ranges = [(0, 2, 30, 0), (0, 2, 30, 30), (0, 2, 1, 7), (0, 1, 9, 0), (1, 2, 9, 45), (0, 2**53, 9, 99)]
        reads = [Between("i:k", *each, descending=True) for each in ranges]
        pages = [[int(text) for text, _ in page] for page in read_snapshot(store, reads=reads).values]
        newest = list(range(99, 49, -1))
        assert pages == [newest[:30], newest[30:], [92], [], newest[45:], []]

    @pytest.mark.parametrize(("most", "expected"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (100, 3)])
    def test_a_read_of_a_timeline_ends_with_so_many_bytes(self, store: Store, most: int, expected: int) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Insert("i", "k", {"é": 1, "aa": 2, "b": 3})]))
        assert len(read_snapshot(store, reads=[Between("i:k", 0, 9, 9, 0, most)]).values[0]) == expected

    def test_an_entry_may_stand_instead_of_those_of_the_same_time(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Insert("i", "k", {"a": 1, "b": 1, "c": 2})], None, 1))
        store.commit(step(claim, [Insert("i", "k", {"a": 1, "d": 1}, instead=True)], 1, 2))
        assert read_snapshot(store, reads=[Between("i:k", 0, 9, 9)]).values == [[("a", 1), ("d", 1), ("c", 2)]]

    def test_an_entry_is_removed_and_the_others_stay(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        inserts = [Insert("i", "k", {"a": 1, "b": 1, "c": 2}), Insert("i", "l", {"a": 1})]
        store.commit(step(claim, inserts, None, 1))
        reads = [Between(f"i:{key}", 0, 9, 9) for key in "kl"]
        removals = [
            Remove("i", "k", "a"),
            Remove("i", "k", "no entry"),
            Remove("i", "none", "a"),
            Remove("j", "k", "a"),
        ]
        store.commit(step(claim, removals, 1, 2))
        assert read_snapshot(store, reads=reads).values == [[("b", 1), ("c", 2)], [("a", 1)]]
        store.commit(step(claim, [Remove("i", "l", "a"), Insert("i", "l", {"b": 5}), Remove("i", "k", "b")], 2, 3))
        assert read_snapshot(store, reads=reads).values == [[("c", 2)], [("b", 5)]]
        store.commit(step(claim, [Remove("i", "l", "b"), ExpireBefore("i", 3)], 3, 4))
        assert read_snapshot(store, reads=reads).values == [[], []]

    def test_a_timeline_is_deleted_and_the_others_stay(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        inserts = [Insert("i", "k", {"a": 1, "b": 5}), Insert("i", "l", {"a": 1})]
        store.commit(step(claim, [*inserts, DeleteTimeline("i", "k"), DeleteTimeline("i", "none")], None, 1))
        reads = [Between(f"i:{key}", 0, 9, 9) for key in "kl"]
        assert read_snapshot(store, reads=reads).values == [[], [("a", 1)]]
        store.commit(step(claim, [Insert("i", "k", {"c": 2}), ExpireBefore("i", 2)], 1, 2))
        assert read_snapshot(store, reads=reads).values == [[("c", 2)], []]

    def test_timelines_of_a_family_let_go_of_what_is_before_a_time(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        inserts = [Insert("i", "k", {"a": 1, "b": 5}), Insert("i", "gone", {"a": 4}), Insert("j", "k", {"a": 1})]
        store.commit(step(claim, [*inserts, ExpireBefore("i", 5)], None, 1))
        reads = [Between(key, 0, 9, 9) for key in ("i:k", "i:gone", "j:k")]
        assert read_snapshot(store, reads=reads).values == [[("b", 5)], [], [("a", 1)]]
        late = Insert("i", "gone", {"late": 4, "again": 5})
        store.commit(step(claim, [late, ExpireBefore("i", 2), ExpireBefore("none", 9)], 1, 2))
        assert read_snapshot(store, reads=reads).values == [[("b", 5)], [("again", 5)], [("a", 1)]]
        store.commit(step(claim, [ExpireBefore("i", 6)], 2, 3))
        assert read_snapshot(store, reads=reads).values == [[], [], [("a", 1)]]
