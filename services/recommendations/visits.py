"""The visits of walkers from a user."""

import secrets

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph import Bipartite
from services.recommendations.kernel import kernel
from services.recommendations.walk import walk

Int32s = NDArray[np.int32]


class Visits:
    """The items visited by walkers from a user, in sequence.

    Visits are counted by sorting the trail: a counter per item of the catalogue costs more in cache misses.
    """

    def __init__(
        self,
        graph: Bipartite,
        user_id: int,
        *,
        walks: int,
        rounds: int,
        reset: float,
        seed: int | None,
        explain: bool,
    ) -> None:
        """Room for `walks` walks of `rounds` rounds; other arguments as for `recommend`."""
        self.walks = self._visits = 0
        self._graph, self._query, self._rounds = graph, graph.user_names.find(user_id), rounds
        self._reset = np.uint64(reset * 2**32)
        self._state = np.array([secrets.randbits(64) if seed is None else seed % 2**64], np.uint64)
        self._trail = np.empty(walks * rounds, np.int32)
        self._vias = np.empty(walks * rounds if explain else 0, np.int32)
        self._fresh = np.ones(len(graph.items), np.bool_)
        self._fresh[graph.known(user_id)] = False

    def __len__(self) -> int:
        """Visits so far."""
        return self._visits

    def more(self, walks: int) -> None:
        """Let so many more walkers go. The user must have edges."""
        trail, vias = self._trail[self._visits :], self._vias[self._visits :]
        _, _, users, user_edges, items, item_edges = self._graph
        start = (self._query, walks, self._rounds, self._reset, self._state)
        self._visits += walk(users, user_edges, items, item_edges, *start, trail, vias)
        self.walks += walks

    def since(self, visits: int) -> Int32s:
        """The item numbers of all visits but the first `visits`, in arbitrary order."""
        return self._trail[visits : self._visits]

    def unknown(self) -> tuple[Int32s, Int32s]:
        """The rising numbers of the visited items unknown to the user, and their visits."""
        ordered = np.sort(self._trail[: self._visits])
        items, visits = np.empty_like(ordered), np.empty_like(ordered)
        count = _count(ordered, self._fresh, items, visits)
        return items[:count], visits[:count]

    def through(self, item: int) -> tuple[Int32s, Int32s]:
        """The numbers of the known items on the way to `item`, and the counts of walkers."""
        at_item = self._trail[: self._visits] == item
        vias, visits = np.unique(self._vias[: self._visits][at_item], return_counts=True)
        return vias, visits.astype(np.int32)


@kernel
def _count(ordered: Int32s, fresh: NDArray[np.bool_], items: Int32s, visits: Int32s) -> int:
    """Write run lengths of fresh items; returns the number of runs. A run is overwritten until its end: no branches."""
    count = run = 0
    for k in range(len(ordered)):
        item = ordered[k]
        ends = k + 1 == len(ordered) or item != ordered[k + 1]
        run += 1
        items[count], visits[count] = item, run
        count += int(ends and fresh[np.uint64(item)])
        run *= int(not ends)
    return count
