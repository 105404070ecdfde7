"""The graph loaded from the store and updated, compared with a graph built edge by edge."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.events import LISTENING_EVENTS
from services.recommendations.graph.bipartite import Graph, Int64s
from services.recommendations.graph.live import Live
from services.recommendations.model import PLAYS as LOG
from services.recommendations.model import app
from services.recommendations.settings import WindowSettings
from streamstate.state.memory import MemoryStore
from streamstate.state.operations import Append
from streamstate.state.store import Commit, OffsetAdvance
from streamstate.testing import Driver
from streamstate.web.http.problems import Problem
from tests.raw import Play
from tests.unit.recommendations.following import PARTITIONS, WINDOW, Logs, driver, edges, expected, fold, records
from tests.waiting import until

ids = st.integers(0, 9)
plays = st.lists(st.tuples(ids, ids, ids, ids, st.just(1_000)), max_size=40)
cuts = st.lists(st.integers(1, 30), max_size=8)
PLAYS: list[Play] = [(n % 7, n % 5, n % 11, n, 1_000) for n in range(60)]


def live(store: MemoryStore, window: int = WINDOW) -> Live:
    return Live(store, window)


def follow(following: Live) -> None:
    """Steps until there is nothing more."""
    while following.step():
        pass


def loaded(store: MemoryStore) -> list[int]:
    """The tracks of the store's graph, a track for each play."""
    following = live(store)
    follow(following)
    return [track for tracks in edges(following.graph())["tracks"].values() for track in tracks]


def split(topic: Logs, at: int) -> tuple[Logs, Logs]:
    return {p: log[:at] for p, log in topic.items()}, {p: log[at:] for p, log in topic.items()}


@settings(max_examples=100)
@given(plays, cuts, st.lists(st.integers(0, 20), max_size=3))
def test_any_cutting_into_commits_and_any_moments_of_reading_give_the_same_edges(
    played: list[Play], cut: list[int], moments: list[int]
) -> None:
    store, topic = MemoryStore(), records(played)
    following, folding = live(store), driver(store)
    for moment in sorted(moments):
        fold(folding, split(topic, moment)[0], cut)
        follow(following)
    fold(folding, topic, cut)
    follow(following)
    assert edges(following.graph()) == expected(played)
    again = live(store)
    follow(again)
    assert edges(again.graph()) == expected(played)


@settings(max_examples=50)
@given(cuts, st.integers(1, 20))
def test_the_newest_records_of_each_partition_are_kept(cut: list[int], window: int) -> None:
    """An entry goes when the last of its records is too old; so with one record each, none is kept for longer."""
    topic = records(PLAYS)
    newest = [record for log in topic.values() for record in log if record[0] > log[-1][0] - window]
    one_each, several = MemoryStore(), MemoryStore()
    fold(driver(one_each, window), topic, range(60))
    fold(driver(several, window), topic, cut)
    assert sorted(loaded(one_each)) == sorted(json.loads(record[3] or b"")["trackId"] for record in newest)
    assert set(loaded(one_each)) <= set(loaded(several))


def test_until_all_is_loaded_the_graph_is_not_given_out() -> None:
    store, topic = MemoryStore(), records(PLAYS)
    following = live(store)

    def percent() -> int:
        follow(following)
        with pytest.raises(Problem) as error:
            following.graph()
        assert error.value.status == 503
        return int(error.value.members["progress"])

    assert percent() == 0
    for partition, log in topic.items():
        store.claim(partition, "a:1", {LISTENING_EVENTS: log[-1][0] + 1})
    assert percent() == 0
    folding = driver(store)
    fold(folding, split(topic, 10)[0])
    assert 30 < percent() < 70
    fold(folding, topic)
    follow(following)
    assert len(following.graph()) == len(PLAYS)


def test_a_failure_between_reading_and_keeping_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read then would be missing from the graph for good."""
    store, append, failures = MemoryStore(), Graph.append, iter([MemoryError])
    fold(driver(store), records(PLAYS))

    def failing(graph: Graph, new: Int64s) -> None:
        for failure in failures:
            raise failure
        append(graph, new)

    following = live(store)
    monkeypatch.setattr("services.recommendations.graph.live.warm_up", lambda: None)
    monkeypatch.setattr(Graph, "append", failing)
    asyncio.run(following.start())
    until(lambda: len(following.held) == len(PLAYS))
    assert edges(following.graph()) == expected(PLAYS)


@settings(max_examples=50)
@given(cuts, cuts, st.integers(0, 30))
def test_a_store_that_was_emptied_and_filled_again_gives_the_graph_anew(
    first: list[int], second: list[int], at: int
) -> None:
    """Whatever the new commits' cuts are: nothing is missing, nothing is twice."""
    store, topic = MemoryStore(), records(PLAYS)
    following = live(store)
    fold(driver(store), split(topic, at)[0], first)
    follow(following)
    store.empty()
    fold(driver(store), topic, second)
    follow(following)
    assert edges(following.graph()) == expected(PLAYS)


def test_a_state_that_is_built_anew_over_more_partitions_is_followed() -> None:
    store = MemoryStore()
    following = live(store)
    fold(Driver(app(WindowSettings(window=WINDOW)), store, 1), {0: records(PLAYS)[0]})
    follow(following)
    store.empty()
    fold(driver(store), records(PLAYS))
    follow(following)
    assert len(following.graph()) == len(PLAYS)


def test_an_entry_that_cannot_be_read_is_left_out_alone() -> None:
    store, topic = MemoryStore(), records(PLAYS)
    folding = driver(store)
    fold(folding, topic)
    positions = {p: snapshot.positions for p, snapshot in store.read({p: [] for p in range(PARTITIONS)}).items()}
    for partition in range(PARTITIONS):
        claim, position = store.claim(partition, "a:1", {}), positions[partition][LISTENING_EVENTS]
        spoilt = Append(LOG, position + 1, "spoilt", keep=WINDOW)
        store.commit(Commit(claim, [OffsetAdvance(LISTENING_EVENTS, position, position + 1)], [spoilt]))
    following = live(store)
    follow(following)
    assert edges(following.graph()) == expected(PLAYS)


def test_positions_tell_of_nothing_that_the_graph_has_not() -> None:
    """A partition with many entries is read in parts, while entries of other partitions wait."""
    store, topic = MemoryStore(), records([(0 if n % 20 else n % 7, 1, 1, n, 1_000) for n in range(400)])
    fold(driver(store), topic, range(400))
    following, seen = live(store), set()
    while following.step():
        reached = following.positions
        told = sum(offset < reached[partition] for partition, log in topic.items() for offset, *_ in log)
        assert told == len(following.held)
        seen.add(told)
    assert any(0 < told < 400 for told in seen)
