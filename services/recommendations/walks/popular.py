"""The items with the most listeners: the fallback of walks without a result."""

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph.bipartite import Bipartite
from services.recommendations.graph.kernel import kernel
from services.recommendations.graph.lists import LENGTH, START

Int32s = NDArray[np.int32]


def most_heard(graph: Bipartite, known: Int32s, limit: int) -> tuple[Int32s, Int32s]:
    """Numbers of items but `known` that may be among the first `limit` by listeners, and their listeners.

    A listener counts once, so the loop of one listener makes no item popular. An item has at least as many plays as
    listeners: listeners of the items with the most plays are a bound, and only items with as many plays are counted.
    """
    plays = graph.items[:, LENGTH].copy()
    plays[known] = 0
    _, listeners = _counted(graph, plays, nth(plays, limit))
    return _counted(graph, plays, nth(listeners, limit))


@kernel
def nth(numbers: Int32s, n: int) -> int:
    """The `n`th greatest of the numbers, 0 for fewer positive numbers. Ties make `np.partition` slow."""
    best = np.zeros(n, np.int32)  # rising
    for number in numbers:
        if number > best[0]:
            place = 1
            while place < n and best[place] < number:
                best[place - 1] = best[place]
                place += 1
            best[place - 1] = number
    return int(best[0])


@kernel
def only_leading(items: Int32s, scores: Int32s, most: int) -> int:
    """Move the items with at least the `most`th score, and a positive score, to the front; returns their number."""
    least, leading = max(1, nth(scores, most)), 0
    for k in range(len(items)):
        items[leading], scores[leading] = items[k], scores[k]
        leading += int(scores[k] >= least)
    return leading


def _counted(graph: Bipartite, plays: Int32s, least: int) -> tuple[Int32s, Int32s]:
    items = np.flatnonzero(plays >= max(1, least)).astype(np.int32)
    listeners, last = np.zeros(len(items), np.int32), np.full(len(graph.users), -1, np.int32)
    _count(graph.items, graph.item_edges, items, last, listeners)
    return items, listeners


@kernel
def _count(nodes: Int32s, edges: Int32s, items: Int32s, last: Int32s, listeners: Int32s) -> None:
    """Count the users of each of `items`. `last[u]`: where in `items` the user u was seen last, -1 at first."""
    for k in range(len(items)):
        start = nodes[items[k], START]
        for edge in range(start, start + nodes[items[k], LENGTH]):
            user = edges[edge]
            listeners[k] += int(last[user] != k)
            last[user] = k
