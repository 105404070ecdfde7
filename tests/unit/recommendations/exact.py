"""Exact scores of the random walk of `recommend`. Small graphs only."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]


class Chain:
    """The Markov chain over users: `plays` is the users x items matrix of edge counts."""

    def __init__(self, edges: Int64s) -> None:
        """`edges` is int64 of shape (n, 2): user id, item id."""
        self.users, user = np.unique(edges[:, 0], return_inverse=True)
        self.items, item = np.unique(edges[:, 1], return_inverse=True)
        pairs, plays = np.unique(user * len(self.items) + item, return_counts=True)
        self.user, self.item = np.divmod(pairs, len(self.items))
        self.to_item = plays / np.bincount(self.user, plays)[self.user]
        self.to_user = plays / np.bincount(self.item, plays)[self.item]

    def visits(self, user_id: int, reset: float, rounds: int) -> Floats:
        """Expected visits of each round of a walk to each of `items`: float64 of shape (rounds, items).

        The sum is what a walk of that many rounds does; the last row is the stationary score.
        """
        query = np.searchsorted(self.users, user_id)
        at: NDArray[Any] = np.zeros(len(self.users))
        visits = np.empty((rounds, len(self.items)))
        at[query] = 1
        for k in range(rounds):
            visits[k] = (1 - reset) * np.bincount(self.item, at[self.user] * self.to_item, len(self.items))
            at = np.bincount(self.user, visits[k, self.item] * self.to_user, len(self.users))
            at[query] += reset
        visits[:, self.item[self.user == query]] = 0  # what the user knows is never recommended
        return visits

    def best(self, user_id: int, reset: float, rounds: int, limit: int) -> list[int]:
        """Ids of the items with the highest stationary scores, best first."""
        scores = self.visits(user_id, reset, rounds)[-1]
        order = np.argsort(-scores, kind="stable")[:limit]
        return [int(item) for item in self.items[order[scores[order] > 0]]]
