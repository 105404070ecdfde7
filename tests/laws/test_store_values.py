"""Laws of the stores in memory and in Redis: values of operations and reads."""

import pytest

from streamstate.errors import Inexact
from streamstate.state.operations import (
    Append,
    Between,
    Delete,
    ExpireBefore,
    Fields,
    IncrementScores,
    Insert,
    Members,
    Merge,
    Newest,
    Operation,
    PushRecent,
    Put,
    Read,
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

    def test_a_list_that_two_operations_of_a_commit_push_to_keeps_its_newest(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [PushRecent("n", {str(time): time}, keep=2) for time in range(5)]))
        assert read_snapshot(store).values[3] == [("4", 4), ("3", 3)]

    @pytest.mark.parametrize("number", [2**53, -(2**53)])
    @pytest.mark.parametrize("beyond", [1, 2, 3, 2**53])
    @pytest.mark.parametrize("ranked", [{}, {"b": 1}, None])
    def test_only_a_commit_with_a_sum_beyond_2_to_the_53_is_refused(
        self, store: Store, number: int, beyond: int, ranked: dict[str, int] | None
    ) -> None:
        claim, other = store.claim(0, A, {T: 10}), store.claim(1, A, {T: 10})
        store.commit(step(claim, [Merge("f", add={"a": number}), IncrementScores("t", {"a": number})]))
        more = {"a": beyond if number > 0 else -beyond}
        last: Operation = Merge("f", add=more) if ranked is None else IncrementScores("t", {**more, **ranked})
        commits = step(other, STEP), step(claim, [Put("v", "x"), last], 1, 2)
        for take, position in ((store.check, None), (store.commit, 1)):
            with pytest.raises(Inexact) as refused:
                take(*commits)
            assert refused.value.refused == [1]
            assert store.read({1: []})[1].positions.get(T) == position
        assert read_snapshot(store, reads=[Value("v"), Fields("f"), Top("t", 9)]).values == [
            None,
            {"a": number},
            [("a", number)],
        ]

    def test_operations_on_one_key_are_added_up_in_their_order(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Merge("f", add={"a": 5}), IncrementScores("t", {"m": 5})]))
        twice: list[Operation] = [
            Merge("f", add={"a": 1}, least={"b": 4}),
            IncrementScores("t", {"m": 1}),
            Merge("f", add={"a": 2**53 - 10}, least={"b": 2}),
            IncrementScores("t", {"m": 2, "o": 1}),
            Delete("f"),
            Merge("f", add={"a": 7}),
            Merge("f", add={"a": 2}, most={"c": 1}),
        ]
        store.commit(step(claim, twice, 1, 2))
        assert read_snapshot(store, reads=[Fields("f"), Top("t", 3)]).values == [{"a": 9, "c": 1}, [("m", 8), ("o", 1)]]
        with pytest.raises(Inexact):
            store.commit(step(claim, [Merge("f", add={"a": 2**52}), Merge("f", add={"a": 2**52})], 2, 3))

    def test_what_is_expired_is_not_read_however_much_it_is(self, store: Store) -> None:
        claim = store.claim(0, A, {T: 10})
        keys = [str(number) for number in range(3_000)]
        long = Insert("i", "long", {str(time): time for time in range(3_000)})
        store.commit(step(claim, [long, *(Insert("i", key, {"x": 2, "y": 2_999}) for key in keys)], None, 1))
        reads = [Between("i:long", 0, 9_999, 9_999), *(Between(f"i:{key}", 0, 9_999, 9) for key in keys)]
        for offset in range(1, 9):
            store.commit(step(claim, [ExpireBefore("i", 2_999)], offset, offset + 1))
            assert read_snapshot(store, reads=reads).values == [[("2999", 2_999)], *[[("y", 2_999)]] * len(keys)]

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

    @pytest.mark.parametrize(("most", "expected"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (100, 3)])
    def test_a_read_of_a_timeline_ends_with_so_many_bytes(self, store: Store, most: int, expected: int) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Insert("i", "k", {"é": 1, "aa": 2, "b": 3})]))
        assert len(read_snapshot(store, reads=[Between("i:k", 0, 9, 9, 0, most)]).values[0]) == expected

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
