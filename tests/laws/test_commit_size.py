"""A commit blocks other clients of Redis, so only an unread state gets large commits."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Fold, FoldContext, Record, Source
from streamstate.errors import Fenced
from streamstate.keys import TEXT
from streamstate.processing.decode import RawRecord
from streamstate.processing.limits import LOOK_S, CommitLimit, Limits, Pace
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import IncrementScores, Merge, Operation, Top, Value, changes
from streamstate.state.store import Commit
from streamstate.testing import Driver
from tests.laws.protocol import decode_number
from tests.waiting import now_s

READY = CommitLimit(records=50, changes=100)
BUILDING = CommitLimit(records=500, changes=1_000)


def fold(records: Sequence[Record[str, int]], _context: FoldContext) -> Iterable[Operation]:
    """As many changes as a record says."""
    for record in records:
        yield IncrementScores("ranking", {str(member): 1 for member in range(record.value)})


def reads(records: Sequence[Record[str, int]]) -> Iterable[Value]:
    """Two for each record."""
    return [Value(f"{record.offset} {number}") for record in records for number in range(2)]


APP = App("sizes", (Fold((Source("numbers", TEXT, decode_number),), fold, reads=reads),))

runs = st.lists(st.tuples(st.one_of(st.integers(0, 3), st.integers(0, 150)), st.integers(1, 60)), max_size=6)
"""Numbers, and how many records in a row have each."""


class Watched(MemoryStore):
    """Remembers what was committed."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []

    def commit(self, *commits: Commit, dry_run: bool = False) -> None:
        self.commits += commits
        super().commit(*commits, dry_run=dry_run)


def fed(driver: Driver, start: int, drawn: Sequence[int]) -> None:
    raw: list[RawRecord] = [(start + at, at, b"a", b"%d" % number) for at, number in enumerate(drawn)]
    driver.feed(0, {"numbers": raw})


@given(st.integers(0, 300), st.lists(runs, max_size=3))
def test_no_commit_has_more_than_the_bound(target: int, batches: Sequence[Sequence[tuple[int, int]]]) -> None:
    store = Watched()
    store.claim(0, "a:1", {"numbers": target})
    driver = Driver(APP, store, limits=Limits(BUILDING, READY))
    drawn: list[int] = []
    for batch in batches:
        values = [number for number, count in batch for _ in range(count)]
        fed(driver, len(drawn), values)
        drawn += values
    for commit in store.commits:
        (step,) = commit.steps
        start = step.expected or 0
        limit = BUILDING if start < target else READY
        size = sum(map(changes, commit.operations)) + 2 * (step.next - start)
        assert step.next - start == 1 or (step.next - start <= limit.records and size <= limit.changes)
    (scores,) = store.read({0: [Top("ranking", 200)]})[0].values
    assert sum(score for _, score in scores) == sum(drawn)


# A build at a rate: small commits, never more records than the rate allows, and the operator's rate at once.

UNREAD, READ = CommitLimit(60_000, 240_000), CommitLimit(60_000, 1_500)


class Time:
    """A clock that only sleep moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= LOOK_S
        self.now += seconds


class Build:
    """Two partitions of an unread state, and the pace of their commits."""

    def __init__(self, configured: float | None) -> None:
        self.time, self.store = Time(), MemoryStore()
        self.begin(configured)

    def begin(self, configured: float | None) -> None:
        """A process claims the partitions."""
        claims = {p: self.store.claim(p, "a:1", {"numbers": 1_000_000}) for p in range(2)}
        self.pace = Pace(self.store, claims, configured, self.time.sleep, self.time.clock)

    def folded(self, seconds: float, most: int) -> int:
        """The records of partition 0 that are committed within a time, in commits of at most `most` records."""
        end, records = self.time.now + seconds, 0
        while True:
            size = min(most, self.pace.limit(0, UNREAD, READ).records)
            self.pace.turn({0: size})
            if self.time.now >= end:
                return records
            records += size


@given(st.integers(1, 5_000), st.integers(1, 20))
def test_a_build_folds_its_rate(rate: int, commits_a_second: int) -> None:
    most = -(-rate // commits_a_second)
    records = Build(rate).folded(20, most)
    assert rate * 20 - most <= records <= rate * 20 + 2 * min(most, rate)


def test_without_a_rate_nothing_waits_and_commits_are_large() -> None:
    build = Build(None)
    assert build.pace.limit(0, UNREAD, READ) == UNREAD
    build.pace.turn({0: 60_000})
    build.pace.turn({0: 60_000})
    assert build.time.now == 100


def test_with_a_rate_commits_are_small() -> None:
    assert Build(40).pace.limit(0, UNREAD, READ) == CommitLimit(40, 1_500)
    assert Build(0.1).pace.limit(0, UNREAD, READ).records == 1
    assert Build(10**6).pace.limit(0, UNREAD, READ) == READ


@pytest.mark.parametrize("configured", [None, 0.0, 10.0])
def test_the_rate_of_the_state_holds_within_two_looks(configured: float | None) -> None:
    build = Build(configured)
    build.pace.limit(0, UNREAD, READ)
    build.store.throttle(0, 500)
    build.time.now += LOOK_S
    assert 4_000 <= build.folded(10, 100) <= 6_000
    # The next process begins with the rate.
    build.begin(configured)
    assert 4_000 <= build.folded(10, 100) <= 6_000
    build.store.throttle(0, None)
    build.time.now += LOOK_S
    assert build.pace.limit(0, UNREAD, READ) == (
        UNREAD if configured is None else READ._replace(records=max(1, int(configured)))
    )


def test_a_rate_of_0_waits_for_another_rate() -> None:
    build = Build(None)
    build.store.throttle(0, 0)
    sleeps = 0

    def sleep(seconds: float) -> None:
        nonlocal sleeps
        sleeps += 1
        build.time.now += seconds
        if sleeps == 7:
            build.store.throttle(0, 1_000)

    build.pace.sleep = sleep
    build.pace.turn({0: 5})
    assert 7 <= sleeps <= 8


def test_a_build_that_waits_ends_when_another_process_claims_its_partition() -> None:
    build = Build(0)

    def sleep(seconds: float) -> None:
        build.time.sleep(seconds)
        build.store.claim(1, "b:1", {})

    build.pace.sleep = sleep
    with pytest.raises(Fenced, match="partition 1 is claimed by another process"):
        build.pace.turn({0: 5})


def count(records: Sequence[Record[str, int]], _context: FoldContext) -> Iterable[Operation]:
    yield Merge("sum", add={"sum": sum(record.value for record in records)})


def test_the_folds_of_a_partition_share_its_rate() -> None:
    names = "numbers", "others"
    folds = (Fold((Source(name, TEXT, decode_number),), count) for name in names)
    store = Watched()
    store.claim(0, "a:1", dict.fromkeys(names, 150))
    driver = Driver(App("sums", tuple(folds)), store, limits=Limits(UNREAD, CommitLimit(50, 10_000), build_rate=1_000))
    started = now_s()
    driver.feed(0, {name: [(offset, offset, b"a", b"1") for offset in range(150)] for name in names})
    assert [step.next - (step.expected or 0) for commit in store.commits for step in commit.steps] == [50] * 6
    assert now_s() - started >= 0.2
