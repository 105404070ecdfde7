"""The same operations give the same answers in memory and in Redis."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamstate.errors import Inexact
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import (
    DAY_MS,
    Append,
    AppendLines,
    Between,
    Delete,
    DeleteTimeline,
    ExpireBefore,
    ExpireDays,
    Field,
    Fields,
    Groups,
    HistoryDays,
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
    Size,
    Top,
    UpdateIndex,
    Value,
)
from streamstate.state.redis import RedisStore
from streamstate.state.store import Commit, OffsetAdvance, Snapshot, Store
from tests.laws.stored import STEP, A, T, read_snapshot, step

EXACT = 2**53
names = st.sampled_from(["", "\0", "a", "A", "b", "é", "🎵", "x:y", "x y", "10", "9"]) | st.text(max_size=8)
steps = st.integers(-1_000, 1_000) | st.sampled_from([0, 1, -1, 2**40, -(2**40)])
times = st.integers(0, EXACT) | st.integers(0, 5)
numbers = st.integers(-EXACT, EXACT) | st.integers(-5, 5)
KEYS = ("1", "2", "\0é 🎵:")
keys = st.sampled_from(KEYS)

# A field is either a sum or a bound, and a key is of one kind, as in any fold.
puts = st.builds(Put, keys.map("v{}".format), names)
merges = st.builds(
    Merge,
    keys.map("f{}".format),
    st.dictionaries(names.map("add{}".format), steps, max_size=4),
    st.dictionaries(names.map("least{}".format), numbers, max_size=4),
    st.dictionaries(names.map("most{}".format), numbers, max_size=4),
)
few_names = st.sampled_from(["", "a", "b", "é", "x:y", "#"])


def grouped(key: str, by: dict[str, int], limit: int, bound: str) -> Merge:
    """A merge of the groups of a sum, or of a bound; each prefix has one limit."""
    prefix = f"{bound}{limit}"
    numbers = {f"{prefix}:{text}": number for text, number in by.items()}
    return Merge(key, **{bound: numbers}, groups={prefix: Groups(limit, list(by))})


def bounded(key: str, by: dict[str, int], limit: int, *, compact: bool) -> IncrementScores:
    """A ranking of at most `limit` members, whose others are in a hash."""
    return IncrementScores(f"{key}{limit}", by, compact, Groups(limit, list(by)), f"o{key}", f"ranking{limit}")


limits = st.sampled_from([1, 3])
groups = st.builds(
    grouped, keys.map("g{}".format), st.dictionaries(few_names, steps, max_size=6), limits,
    st.sampled_from(["add", "least", "most"]),
)  # fmt: skip
ranks = st.builds(
    bounded, keys.map("t{}".format), st.dictionaries(few_names, steps, max_size=6), limits, compact=st.just(value=False)
) | st.builds(IncrementScores, keys.map("t{}".format), st.dictionaries(names, steps, max_size=6))
counts = st.integers(1, 3)
# Compact rankings are laid out in another way with more members.
many = st.builds(
    lambda start, size, by: {f"m{number}": by for number in range(start, start + size)},
    st.integers(0, 300), st.integers(0, 400), counts,
)  # fmt: skip
compact_ranks = st.builds(
    bounded,
    keys.map("c{}".format),
    st.dictionaries(names, counts, max_size=6) | many,
    st.sampled_from([2, 128, 130, 250]),
    compact=st.just(value=True),
) | st.builds(
    IncrementScores, keys.map("c{}".format), st.dictionaries(names, counts, max_size=6) | many, st.just(value=True)
)
compact_deletes = st.builds(Delete, keys.map("c{}".format), st.just(value=True))
indexes = st.builds(UpdateIndex, keys.map("i{}".format), *[st.lists(names, max_size=6)] * 2)
pushes = st.builds(PushRecent, keys.map("n{}".format), st.dictionaries(names, times, max_size=6), st.integers(1, 5))
appends = st.builds(
    Append, keys.map("l{}".format), st.integers(1, 30) | st.just(EXACT), names, st.integers(1, 9) | st.just(EXACT)
)
families = st.sampled_from(["x", "x:y", "é"])
inserts = st.builds(Insert, families, keys, st.dictionaries(names, times, max_size=6), st.booleans())
removals = st.builds(Remove, families, keys, names)
forgets = st.builds(DeleteTimeline, families, keys)
expiries = st.builds(ExpireBefore, families, times)
days = st.integers(0, 9)
# Long lines fill a field of Redis, so that the day goes on in another one.
lines = st.sampled_from(["[1]\n", '["é\\n"]\n', f"[{'1' * 9_000}]\n"])
texts = st.lists(lines, min_size=1, max_size=3).map("".join)
day_bytes = st.sampled_from([10, 30_000, EXACT])
records = st.builds(
    AppendLines, families.map("h{}".format), keys, st.dictionaries(days.map(str), texts, max_size=3), day_bytes
)
day_expiries = st.builds(ExpireDays, families.map("h{}".format), days.map(DAY_MS.__mul__))
day_forgets = st.builds(DeleteTimeline, families.map("h{}".format), keys)
histories = records | day_expiries | day_forgets
timelines = st.tuples(families, keys).map(":".join)
deletes = st.builds(Delete, st.tuples(st.sampled_from("vftinl"), keys).map("".join) | timelines)
sets = ranks | compact_ranks | compact_deletes | indexes | pushes
operations = st.lists(
    puts | merges | groups | sets | appends | inserts | removals | forgets | expiries | histories | deletes,
    max_size=12,
)

READS: list[Read] = [
    *(Value(f"v{key}") for key in KEYS),
    *(Fields(f"{kind}{key}") for key in KEYS for kind in ("f", "g", "ot", "oc")),
    *(Field(f"f{key}", field) for key in KEYS for field in ("adda", "least", "mostx:y")),
    *(Top(f"t{key}{limit}", n) for key in KEYS for n in (1, 3, 100) for limit in ("", 1, 3)),
    *(
        Members(f"i{key}", start, end, n, descending)
        for key in KEYS
        for start, end in (("", ""), ("9", "a\0"), ("é", "ê"), ("b", "a"))
        for n in (1, 100)
        for descending in (False, True)
    ),
    *(Newest(f"n{key}", n) for key in KEYS for n in (1, 3, 100)),
    *(Since(f"l{key}", after, n) for key in KEYS for after in (0, 7, EXACT - 1) for n in (1, 100)),
    *(Size(f"t{key}") for key in KEYS),
    *(Top(f"c{key}", n) for key in KEYS for n in (1, 64)),
    *(Top(f"c{key}{limit}", 10_000, compact=True) for key in KEYS for limit in ("", 2, 128, 130, 250)),
    *(Size(f"c{key}{limit}", compact=True) for key in KEYS for limit in ("", 2, 128, 130, 250)),
    *(HistoryDays(f"h{family}", key) for family in ("x", "x:y", "é") for key in KEYS),
    *(Between(f"{family}:{key}", 0, EXACT + 2, 100) for family in ("x", "x:y", "é") for key in KEYS),
    *(
        Between(f"x:{key}", start, end, 2, skip, descending=descending)
        for key in KEYS
        for start, end in ((0, 4), (2, 3))
        for skip in (0, 1)
        for descending in (False, True)
    ),
]


def outcome(store: Store, batches: list[list[Operation]]) -> list[Snapshot]:
    """What is read after each of `batches`."""
    claim = store.claim(3, "a:1", {"topic": len(batches)})
    seen = []
    for number, batch in enumerate(batches):
        store.commit(Commit(claim, [OffsetAdvance("topic", number or None, number + 1)], batch, {"count": len(batch)}))
        seen.append(store.read({3: READS})[3])
    return seen


@settings(max_examples=100)
@given(batches=st.lists(operations, min_size=1, max_size=4))
def test_both_stores_give_the_same_answers(
    batches: list[list[Operation]], redis_store: Callable[[], RedisStore]
) -> None:
    for ours, theirs in zip(outcome(MemoryStore(), batches), outcome(redis_store(), batches), strict=True):
        assert ours.values == theirs.values
        assert (ours.positions, ours.targets, ours.counters) == (theirs.positions, theirs.targets, theirs.counters)


# Laws of the stores in memory and in Redis: values of operations and reads.


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
    @pytest.mark.parametrize("beyond", [1, 2**53])
    @pytest.mark.parametrize("ranked", [{}, {"b": 1}, None])
    def test_only_a_commit_with_a_sum_beyond_2_to_the_53_is_refused(
        self, store: Store, number: int, beyond: int, ranked: dict[str, int] | None
    ) -> None:
        claim, other = store.claim(0, A, {T: 10}), store.claim(1, A, {T: 10})
        store.commit(step(claim, [Merge("f", add={"a": number}), IncrementScores("t", {"a": number})]))
        more = {"a": beyond if number > 0 else -beyond}
        last: Operation = Merge("f", add=more) if ranked is None else IncrementScores("t", {**more, **ranked})
        commits = step(other, STEP), step(claim, [Put("v", "x"), last], 1, 2)
        for dry_run, position in ((True, None), (False, 1)):
            with pytest.raises(Inexact) as refused:
                store.commit(*commits, dry_run=dry_run)
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
