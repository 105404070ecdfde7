"""Exact scores of the walk that `recommend` takes with dice, and data to judge it on. Small graphs only."""

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


def listening(seed: int, users: int = 2_000, tracks: int = 20_000, events: int = 100_000) -> Int64s:
    """Plays of users who prefer two genres each, popularity by Zipf's law: int64 of shape (events, 2)."""
    dice, genres = np.random.default_rng(seed), 50
    user = dice.permutation(users)[_zipf(dice, users, 0.7, events)]
    taste = _zipf(dice, genres, 0.5, 2 * users).reshape(users, 2)[user, dice.integers(0, 2, events)]
    genre = np.where(dice.random(events) < 0.8, taste, dice.integers(0, genres, events))
    track = _zipf(dice, tracks // genres, 1.0, events) * genres + genre
    return np.column_stack([user, track]).astype(np.int64) + 1


def _zipf(dice: np.random.Generator, count: int, exponent: float, size: int) -> Int64s:
    share = np.arange(1, count + 1) ** -exponent
    return dice.choice(count, size, p=share / share.sum())
