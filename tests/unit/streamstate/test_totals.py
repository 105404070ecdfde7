"""Which totals are published: those that rose."""

from streamstate.app import Totals
from streamstate.kafka.totals import reads, risen, summed
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Merge
from streamstate.state.store import Commit, OffsetAdvance

TOTALS = (Totals("out", "sums"), Totals("other", "more"))


def test_fields_are_summed_over_all_partitions() -> None:
    store = MemoryStore()
    for partition in range(3):
        step = [Merge("sums", add={"a": 1, f"p{partition}": partition}), Merge("more", add={"a": 10})]
        store.commit(Commit(store.claim(partition, "a:1", {}), [OffsetAdvance("t", None, 1)], step))
    found = summed(TOTALS, store.read(dict.fromkeys(range(4), reads(TOTALS))).values())
    ours = {("out", "a"): 3, ("out", "p0"): 0, ("out", "p1"): 1, ("out", "p2"): 2}
    assert found == {**ours, ("other", "a"): 30}


def test_only_what_rose_is_published() -> None:
    now = {("out", "new"): 0, ("out", "risen"): 5, ("out", "same"): 3, ("out", "set back"): 1}
    before = {("out", "risen"): 4, ("out", "same"): 3, ("out", "set back"): 2, ("out", "gone"): 7}
    assert risen(now, before) == {("out", "new"): 0, ("out", "risen"): 5}
