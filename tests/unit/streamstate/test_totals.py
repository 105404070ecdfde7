"""What totals are, and which state may publish them."""

from collections.abc import Mapping

import pytest

from streamstate.app import Totals
from streamstate.kafka.totals import has_reached, reads, summed
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Merge
from streamstate.state.store import Commit, OffsetAdvance, TopicPartition

A, B = ("t", 0), ("t", 1)
TOTALS = (Totals("out", "sums"), Totals("other", "more"))


def test_fields_are_summed_over_all_partitions() -> None:
    store = MemoryStore()
    for partition in range(3):
        step = [Merge("sums", add={"a": 1, f"p{partition}": partition}), Merge("more", add={"a": 10})]
        store.commit(Commit(store.claim(partition, "a:1", {}), [OffsetAdvance("t", None, 1)], step))
    found = summed(TOTALS, store.read(dict.fromkeys(range(4), reads(TOTALS))).values())
    ours = {("out", "a"): 3, ("out", "p0"): 0, ("out", "p1"): 1, ("out", "p2"): 2}
    assert found == {**ours, ("other", "a"): 30}


@pytest.mark.parametrize(
    ("positions", "reached"), [({}, False), ({A: 4, B: 9}, False), ({A: 5}, False), ({A: 5, B: 7}, True)]
)
def test_a_state_publishes_once_it_has_read_what_the_last_totals_were_made_of(
    positions: Mapping[TopicPartition, int], *, reached: bool
) -> None:
    assert has_reached(positions, {A: 5, B: 7}) is reached
    assert has_reached(positions, {})
