"""Records that Kafka deleted before they were read: told, never passed over in silence."""

import re

import pytest

from streamstate.processing.truncation import LOST, left_out, refusal
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Claim, Commit, OffsetAdvance

BEHIND = Claim(3, 1, "run", {"a": 5, "b": 7, "c": 0}, {"a": 50, "b": 70})


def test_what_begins_behind_the_stored_offset_was_lost() -> None:
    assert left_out(BEHIND, {"a": 15, "b": 7, "c": 2}) == Commit(
        BEHIND, [OffsetAdvance("a", 5, 15, 50), OffsetAdvance("c", 0, 2, 0)], [], {LOST: 12}
    )


@pytest.mark.parametrize("begins", [{}, {"a": 0, "b": 7}, {"never read": 100}])
def test_nothing_is_lost_that_was_read_or_never_begun(begins: dict[str, int]) -> None:
    assert left_out(BEHIND, begins) is None


def test_the_error_names_place_and_number_and_the_way_out() -> None:
    commit = left_out(BEHIND, {"a": 15})
    assert commit is not None
    assert re.search(r"10 records of a:3 from offset 5 .* STREAMSTATE_LOST_RECORDS=skip", str(refusal(commit)))


def test_the_commit_counts_them_and_moves_on() -> None:
    store = MemoryStore()
    claim = store.claim(0, "a:1", {"a": 9})
    store.commit(Commit(claim, [OffsetAdvance("a", None, 5, 50)], []))
    again = store.claim(0, "a:1", {"a": 9})
    commit = left_out(again, {"a": 15})
    assert commit is not None
    store.commit(commit)
    found = store.read({0: []})[0]
    assert (found.positions, found.times, found.counters) == ({"a": 15}, {"a": 50}, {LOST: 10})
