"""Growable first-in-first-out lists of edges in a pool: the adjacency of a side of the graph."""

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph.kernel import kernel

START, LENGTH = 0, 1
SLACK = 4  # a compacted list has room for a quarter more, and the pool for a quarter more moved lists
LEAST = 256  # cells of the first pool

Int32s = NDArray[np.int32]


class Lists:
    """For each node a list of cells, oldest first; a cell has an int32 per column.

    A list is a contiguous piece of the pool. New cells are added at the end; a full list is copied to a bigger piece;
    the oldest cell is dropped by moving the start. A full pool is copied without gaps into a new pool. So **a cell is
    written once, before readers learn of the cell**, and a copy of `nodes` with the current pool is an immutable
    snapshot.
    """

    def __init__(self, nodes: int, columns: int) -> None:
        self.nodes = np.zeros((nodes, 2), np.int32)  # START and LENGTH of each list
        self.pool = np.empty((columns, LEAST), np.int32)
        self._ends = np.zeros(nodes, np.int32)  # where each list's piece ends
        self._top = 0  # where the pool's free part begins

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.nodes.nbytes + self.pool.nbytes + self._ends.nbytes

    def reserve(self, nodes: int) -> None:
        """Have (empty) lists for node numbers below `nodes`."""
        more = nodes - len(self.nodes)
        if more > 0:
            self.nodes = np.concatenate([self.nodes, np.zeros((more, 2), np.int32)])
            self._ends = np.concatenate([self._ends, np.zeros(more, np.int32)])

    def push(self, nodes: Int32s, cells: Int32s) -> None:
        """Append `cells[:, j]` to the list of `nodes[j]`, for each j in turn."""
        done = 0
        while True:
            done, self._top = _push(self.nodes, self._ends, self.pool, self._top, nodes, cells, done)
            if done == len(nodes):
                return
            self._compact()

    def drop(self, nodes: Int32s) -> Int32s:
        """Take the oldest cell from the list of each of `nodes` (no list may be empty); returns the cells."""
        cells = np.empty((len(self.pool), len(nodes)), np.int32)
        _drop(self.nodes, self.pool, nodes, cells)
        return cells

    def _compact(self) -> None:
        cells = int(self.nodes[:, LENGTH].sum(dtype=np.int64))
        pool = np.empty((len(self.pool), cells + 2 * (cells // SLACK) + LEAST), np.int32)
        self._top = _copy(self.nodes, self._ends, self.pool, pool)
        self.pool = pool


@kernel
def _push(
    nodes: Int32s,
    ends: Int32s,
    pool: Int32s,
    top: int,
    to: Int32s,
    cells: Int32s,
    done: int,
) -> tuple[int, int]:
    """Push cells from `done` on until the last cell or a full pool. Returns (next cell, new top)."""
    for j in range(done, len(to)):
        node = to[j]
        start, length = nodes[node, START], nodes[node, LENGTH]
        if start + length == ends[node]:
            piece = length + length // SLACK + 1
            if top + piece > pool.shape[1]:
                return j, top
            for column in range(len(pool)):
                for k in range(length):
                    pool[column, top + k] = pool[column, start + k]
            start = top
            top += piece
            nodes[node, START] = start
            ends[node] = top
        for column in range(len(pool)):
            pool[column, start + length] = cells[column, j]
        nodes[node, LENGTH] = length + 1
    return len(to), top


@kernel
def _drop(nodes: Int32s, pool: Int32s, of: Int32s, cells: Int32s) -> None:
    for j in range(len(of)):
        node = of[j]
        for column in range(len(pool)):
            cells[column, j] = pool[column, nodes[node, START]]
        nodes[node, START] += 1
        nodes[node, LENGTH] -= 1


@kernel
def _copy(nodes: Int32s, ends: Int32s, old: Int32s, new: Int32s) -> int:
    """Copy all lists one after another into `new`, each with its slack; returns the new top."""
    top = 0
    for node in range(len(nodes)):
        start, length = nodes[node, START], nodes[node, LENGTH]
        for column in range(len(old)):
            for k in range(length):
                new[column, top + k] = old[column, start + k]
        nodes[node, START] = top
        top += length + length // SLACK
        ends[node] = top
    return top
