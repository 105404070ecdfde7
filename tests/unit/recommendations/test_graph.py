"""The graph compared with a list of edges: contents, order, and views during writes."""

import threading
from collections import defaultdict, deque
from time import sleep

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from devkit.bench.data import listening
from services.recommendations.graph import Bipartite, Graph
from services.recommendations.ids import IdTable
from services.recommendations.lists import LENGTH, START
from services.recommendations.salsa import recommend

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
        sleep(0.005)  # for the readers to get their turn between the publications
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
