"""Lists of walks that stay the same for a time slot, whatever other users play."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from services.recommendations.graph.bipartite import Graph
from services.recommendations.queries import Query
from services.recommendations.walks.salsa import Recommendation

MOST_NUMBERS = 500_000
"""The most ids and offsets in kept lists and their names: some 60 MB."""


class Walked(NamedTuple):
    """A list, and the next offsets of the graph by partition at the walk."""

    found: Recommendation
    positions: Mapping[int, int]


class KeptLists:
    """The newest lists in `graph`, by all that a list depends on but the plays of other users. For one event loop."""

    def __init__(self, graph: Graph, most: int = MOST_NUMBERS) -> None:
        """`most`: ids and offsets in all kept lists and their names."""
        self.graph, self._most, self._numbers = graph, most, 0
        self._lists: dict[Hashable, tuple[Walked, int]] = {}

    def get(self, name: Hashable | None) -> Walked | None:
        """The list of this name."""
        walked, _ = self._lists.get(name, (None, 0))
        return walked

    def keep(self, name: Hashable | None, query: Query, walked: Walked) -> None:
        """Keep the list of `query` if it has a name and `limit` items from whole walks.

        The next play of any user may lengthen a shorter list, and may give a fallback its first walks.
        """
        found, limit = walked.found, query.asked.limit
        if name is None or found.partial or found.fallback or len(found.items) < limit:
            return
        size = limit + len(query.excluded) + len(walked.positions) + sum(map(len, found.explanations.values()))
        _, before = self._lists.pop(name, (None, 0))
        self._lists[name] = walked, size
        self._numbers += size - before
        while self._numbers > self._most:
            _, size = self._lists.pop(next(iter(self._lists)))
            self._numbers -= size
