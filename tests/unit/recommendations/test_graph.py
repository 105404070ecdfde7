"""The graph compared with a list of edges: contents, order, and views during writes."""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from devkit.lab.plays import listening
from services.recommendations.api import Pool
from services.recommendations.graph.bipartite import Bipartite, Graph
from services.recommendations.graph.ids import IdTable
from services.recommendations.graph.lists import LENGTH, START
from services.recommendations.packing import PlayBatch, pack, unpack
from services.recommendations.settings import PoolSettings
from services.recommendations.walks.salsa import recommend
from streamstate.keys import LONG_MAX
from streamstate.web.http.problems import Problem
from tests.waiting import pause

KINDS = ("artists", "tracks")
Int32s = NDArray[np.int32]

ids = st.one_of(st.integers(0, 8), st.sampled_from([-(2**63), -1, 2**63 - 1]))
events = st.lists(st.tuples(ids, ids, ids), max_size=60)


def neighbours(nodes: Int32s, edges: Int32s, own: IdTable, other: IdTable) -> dict[int, list[int]]:
    """External id -> external ids of its neighbours, for all nodes with edges."""
    return {
        int(own.external[node]): other.external[edges[start : start + length]].tolist()
        for node, (start, length) in enumerate(nodes.tolist())
        if length
    }


def sides(view: Bipartite) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    names, items = view.user_names, view.item_names
    return (
        neighbours(view.users, view.user_edges, names, items),
        neighbours(view.items, view.item_edges, items, names),
    )


def expected(edges: list[tuple[int, int]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    users, items = defaultdict(list), defaultdict(list)
    for user, item in edges:
        users[user].append(item)
        items[item].append(user)
    return users, items


def table(rows: list[tuple[int, int, int]]) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, 3)


@given(st.lists(events, max_size=8), st.integers(1, 80))
@settings(max_examples=200)
def test_is_the_multigraph_of_the_newest_events_in_their_order(
    batches: list[list[tuple[int, int, int]]], window: int
) -> None:
    graph, model = Graph(KINDS, window), deque[tuple[int, int, int]](maxlen=window)
    taken = [(graph.view("tracks"), expected([]))]
    for batch in batches:
        graph.append(table(batch))
        model.extend(batch)
        assert len(graph) == len(model)
        for column, kind in enumerate(KINDS, start=1):
            assert sides(graph.view(kind)) == expected([(event[0], event[column]) for event in model])
        taken.append((graph.view("tracks"), expected([(user, track) for user, _, track in model])))
    for view, as_it_was in taken:  # later writes have not changed what was read before
        assert sides(view) == as_it_was


def test_a_long_stream_of_new_ids_keeps_to_its_memory_and_out_of_old_views() -> None:
    graph = Graph(("tracks",), window=2_000)
    sizes, taken = [], []
    for first in range(0, 200_000, 1_000):
        new = np.arange(first, first + 1_000)
        graph.append(np.column_stack([new, new + 7]))
        sizes.append(graph.nbytes)
        if first % 5_000 == 0:
            live = range(max(0, first - 1_000), first + 1_000)
            taken.append((graph.view("tracks"), expected([(user, user + 7) for user in live])))
    assert max(sizes[20:]) <= 1.5 * max(sizes[:20])
    for view, as_it_was in taken:
        assert sides(view) == as_it_was


def test_compaction_keeps_a_hub_and_its_fans() -> None:
    graph = Graph(("tracks",), window=30_000)
    edges = np.column_stack([np.arange(50_000) % 40_000, np.zeros(50_000, np.int64)])
    for part in np.array_split(edges, 17):
        graph.append(part)
    assert sides(graph.view("tracks")) == expected([(user, item) for user, item in edges[-30_000:].tolist()])


def test_readers_see_whole_publications_while_another_thread_writes_and_drops() -> None:
    plays, window, batch = listening(5, users=300, tracks=3_000, events=30_000), 4_000, 250
    plays[:, 0] += np.arange(len(plays)) // 10_000 * 100_000  # other users come: numbers are given out again
    ends = range(window, len(plays) + 1, batch)
    moments = {tuple(sorted(map(tuple, plays[end - window : end].tolist()))) for end in ends}
    graph = Graph(("tracks",), window)
    graph.append(plays[:window])
    done = threading.Event()
    wrong: list[str] = []
    looked: list[int] = []

    def read(seed: int) -> None:
        while not done.is_set():
            view = graph.view("tracks")
            users, items = sides(view)
            forth = tuple(sorted((user, item) for user, known in users.items() for item in known))
            back = tuple(sorted((user, item) for item, fans in items.items() for user in fans))
            if forth != back or forth not in moments:
                wrong.append("not the edges of any moment")
            for user in list(users)[seed::50]:
                found = recommend(view, user, walks=50, seed=seed)
                if not {item for item, _ in found.items} <= items.keys() - set(users[user]):
                    wrong.append("an item that is known, or not in the graph")
            looked.append(seed)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for end in ends[1:]:
        graph.append(plays[end - batch : end])
        pause(0.005)  # for the readers to get their turn between the publications
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert set(looked) == {0, 1, 2}
    assert sides(graph.view("tracks")) == expected([(user, item) for user, item in plays[-window:].tolist()])


def test_bytes_of_an_event() -> None:
    """Both sides of three kinds, their slack, the ids, the log and the published copies."""
    plays = listening(3, users=5_000, tracks=20_000, events=200_000)
    graph = Graph(("artists", "albums", "tracks"), 10**6)
    user, track = plays.T
    graph.append(np.column_stack([user, track // 50, track // 10, track]))
    assert graph.nbytes / len(graph) <= 60
    view = graph.view("tracks")
    assert view.users[:, LENGTH].sum() == view.items[:, LENGTH].sum() == len(plays)
    assert view.users[:, START].max() < len(view.user_edges)


# Plays as text and back.

big_ids = st.integers(0, 300) | st.integers(0, LONG_MAX) | st.sampled_from([0, 255, 256, 2**32, LONG_MAX])
rows = st.lists(st.tuples(big_ids, big_ids, big_ids, big_ids), min_size=1, max_size=50)


@given(st.integers(-1, 2**62), rows)
def test_what_is_packed_is_unpacked(time: int, plays: list[tuple[int, int, int, int]]) -> None:
    found = unpack(pack(PlayBatch(time, np.array(plays, np.int64))).encode())
    assert found.time == time
    assert found.ids.tolist() == [list(play) for play in plays]


def test_a_play_takes_as_many_bytes_as_its_ids() -> None:
    plays = np.random.default_rng(1).integers(0, (50_000, 20_000, 100_000, 1_000_000), (10_000, 4))
    assert len(pack(PlayBatch(0, plays))) / len(plays) < 14


@pytest.mark.parametrize("spoil", [lambda t: t[:-4], lambda t: t[:8], lambda _: b"", lambda t: b"\xff" + t[1:]])
def test_a_text_that_was_cut_or_changed_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    text = pack(PlayBatch(5, np.array([[1, 2, 3, 4], [5, 6, 7, 80_000]], np.int64))).encode()
    with pytest.raises(ValueError, match=r"log entry|[Bb]ase64|[Pp]adding|[Ii]nvalid"):
        unpack(spoil(text))


# Walks beside the event loop.


def test_refusals_keep_no_frames_of_those_before() -> None:
    """An error that is raised again and again holds the frames of all times."""

    async def refusals() -> list[Problem]:
        pool, end = Pool(PoolSettings(walkers=1, walks_waiting=0)), threading.Event()
        walking = asyncio.create_task(pool.run(end.wait))
        await asyncio.sleep(0)
        refused = await asyncio.gather(*(pool.run(end.wait) for _ in range(2)), return_exceptions=True)
        end.set()
        await walking
        await pool.close()
        return [error for error in refused if isinstance(error, Problem)]

    first, second = asyncio.run(refusals())
    assert (first.status, first.kind) == (503, "overloaded")
    assert first is not second
