"""A commit blocks other clients of Redis, so only an unread state gets large commits."""

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from streamstate.app import App, Fold, FoldContext, Record, Source
from streamstate.keys import TEXT
from streamstate.processing.decode import RawRecord
from streamstate.processing.limits import CommitLimit, Limits
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import IncrementScores, Operation, Top, Value, changes
from streamstate.state.store import Commit
from streamstate.testing import Driver
from tests.laws.protocol import decode_number

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

    def commit(self, *commits: Commit) -> None:
        self.commits += commits
        super().commit(*commits)


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
