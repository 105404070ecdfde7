"""Logs that were cut: told, never passed over in silence."""

import re
from collections.abc import Iterable, Mapping

import pytest

from streamstate.app import App, Fold, Source
from streamstate.errors import Misconfigured
from streamstate.kafka.admin import Topics
from streamstate.kafka.claims import Claims
from streamstate.keys import TEXT
from streamstate.processing.truncation import (
    LOST,
    allowed,
    left_out,
    missing_beginnings,
    refusal,
    require_beginnings,
    require_ends,
)
from streamstate.state.memory import MemoryStore
from streamstate.state.store import Allowance, Claim, Commit, OffsetAdvance, Origin, Snapshot, TopicPartition

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
    assert re.search(
        r"10 records of a:3 from offset 5 .* `streamstate allow SERVICE a .* STREAMSTATE_LOST_RECORDS=skip",
        str(refusal(commit)),
    )


def test_an_operator_allows_what_was_deleted_by_then_and_not_what_comes_later() -> None:
    commit = left_out(BEHIND, {"a": 15, "b": 9})
    assert commit is not None
    assert not allowed(commit, {"a": Allowance(15, "why")})
    assert allowed(commit, {"a": Allowance(15, "why"), "b": Allowance(9, "why"), "c": Allowance(1, "why")})
    assert not allowed(commit, {"a": Allowance(14, "why"), "b": Allowance(9, "why")})


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


class Cut(Topics):
    """One partition of `a`, of which the records before `begin` are deleted."""

    def __init__(self, begin: int) -> None:
        self.begin = begin

    def begins(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self.begin)

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 100)

    def high_watermarks(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.ends(places)


def test_a_stream_goes_on_without_what_an_operator_allows_and_stops_at_the_next_loss() -> None:
    store, app = MemoryStore(), App("lost", (Fold((source("a"),), lambda _records, _context: ()),))
    store.commit(Commit(store.claim(0, "a:1", {"a": 9}), [OffsetAdvance("a", None, 5)], []))

    def claimed(begin: int) -> int:
        claims = Claims(app, store, Cut(begin), "a:1", truncated=(), skip_lost=False)
        return claims.claim([0], {"a": Origin("id", 1)})[1]["a", 0]

    with pytest.raises(Misconfigured, match="`streamstate allow SERVICE a --reason TEXT`"):
        claimed(15)
    store.allow(0, "a", Allowance(15, "why"))
    assert claimed(15) == 15
    assert store.read({0: []})[0].counters == {LOST: 10}
    with pytest.raises(Misconfigured, match="5 records of a:0 from offset 15"):
        claimed(20)


def source(topic: str, *, requires_beginning: bool = True) -> Source[str, bytes | None]:
    return Source(topic, TEXT, lambda _key, value: value, requires_beginning=requires_beginning)


APP = App(
    "cut",
    (
        Fold((source("a"), source("b")), lambda _records, _context: ()),
        Fold((source("short", requires_beginning=False),), lambda _records, _context: ()),
    ),
)


def begun(**begins: int) -> Mapping[int, Snapshot]:
    store = MemoryStore()
    store.claim(3, "a:1", {}, begins=begins)
    return store.read({3: []})


def test_a_state_that_lacks_the_beginning_of_a_topic_is_refused_with_the_ways_out() -> None:
    with pytest.raises(Misconfigured, match=r'a:3 begins at offset 5.*restore Redis.*TRUNCATED_TOPICS.*\["a"\]'):
        require_beginnings(APP, APP.topics, begun(a=5, b=0), ["b"])


def test_a_state_may_lack_what_is_allowed_or_not_required() -> None:
    snapshots = begun(a=5, b=7, short=9, before=1)
    require_beginnings(APP, APP.topics, snapshots, ["a", "b"])
    require_beginnings(APP, ["b", "short"], snapshots, ["b"])
    require_beginnings(APP, APP.topics, begun(a=0), [])
    require_beginnings(APP, APP.topics, begun(), [])
    assert missing_beginnings(APP, snapshots) == {("a", 3): 5, ("b", 3): 7}


def test_a_state_may_lack_what_an_operator_allows_it_to_lack() -> None:
    store = MemoryStore()
    store.claim(3, "a:1", {}, begins={"a": 5})
    store.allow(3, "a", Allowance(5, "why"))
    require_beginnings(APP, APP.topics, store.read({3: []}), [])
    store.claim(3, "a:1", {}, begins={"a": 6})
    with pytest.raises(Misconfigured, match=r"a:3 begins at offset 6.*`streamstate allow SERVICE a --reason TEXT`"):
        require_beginnings(APP, APP.topics, store.read({3: []}), [])


def test_a_state_beyond_the_end_of_its_topic_is_refused_with_both_offsets() -> None:
    require_ends({3: BEHIND}, {("a", 3): 5, ("b", 3): 9, ("new", 3): 0})
    with pytest.raises(Misconfigured, match=r"b:3 ends at offset 6, and the state stands at 7.*`streamstate reset"):
        require_ends({3: BEHIND}, {("a", 3): 5, ("b", 3): 6})
