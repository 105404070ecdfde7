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

    @pytest.mark.parametrize(
        "read", [Top("t", 0), Newest("n", 0), Since("l", 0, 0), Between("i:k", 0, 10, 0), Members("x", "", "", 0)]
    )
    def test_the_first_0_are_none(self, store: Store, read: Read) -> None:
        store.commit(step(store.claim(0, A, {T: 10}), STEP))
        assert read_snapshot(store, reads=[read]).values == [[]]

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

    @pytest.mark.parametrize(("most", "expected"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (100, 3)])
    def test_a_read_of_a_timeline_ends_with_so_many_bytes(self, store: Store, most: int, expected: int) -> None:
        claim = store.claim(0, A, {T: 10})
        store.commit(step(claim, [Insert("i", "k", {"é": 1, "aa": 2, "b": 3})]))
        assert len(read_snapshot(store, reads=[Between("i:k", 0, 9, 9, 0, most)]).values[0]) == expected
