"""Walks for a user or from an item, as asked by a request."""

import hashlib
import time
from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from services.recommendations.answers import Options
from services.recommendations.control.exclusions import Control
from services.recommendations.graph.bipartite import Bipartite
from services.recommendations.starts import Starts
from services.recommendations.walks.salsa import Recommendation, recommend
from streamstate.web.http.deadline import Deadline

WALKING = 0.8
"""The share of the remaining time for walks; the rest is for ranking and the response."""

NEWEST = 16
"""The plays of a user that tell, with the number of plays, whether the user has played since."""

Bools = NDArray[np.bool_]


class Query:
    """Walks in the graph of `kind` from the user or item `key`, or from the starts of the request."""

    def __init__(
        self,
        kind: str,
        asked: Options,
        key: int,
        stable_s: int,
        control: Control,
        *,
        of_item: bool,
        explain: bool = False,
    ) -> None:
        """Raises a 400 `Problem` for ids or weights beyond their limits."""
        self.kind, self.key, self.asked, self._rules = kind, key, asked, control.rules
        self._user, self._explain = None if of_item else key, explain
        self._starts = Starts(asked.starts or (f"{kind}:{key}" if of_item else ""))
        self.excluded = {*asked.excluded, *self._starts.items(kind), *control.shown[kind], *([key] if of_item else [])}
        self._stays = stable_s > 0 and asked.seed is None
        self._seed = slot_seed(f"{kind} {of_item} {key}", stable_s, time.time()) if asked.seed is None else asked.seed

    def name(self, views: Mapping[str, Bipartite]) -> Hashable | None:
        """All that the list depends on but the plays of other users; None for a new draw, or the request's own seed."""
        if not self._stays:
            return None
        known = () if self._user is None else views[self.kind].known(self._user)
        plays = len(known), bytes(known[-NEWEST:])
        asked = self.kind, self.key, self._user, self.asked, self._explain
        return asked, self._seed, plays, frozenset(self.excluded), self._rules

    def walk(self, views: Mapping[str, Bipartite], deadline: Deadline) -> Recommendation:
        """The result in `views`, the graphs of all kinds. Raises a 400 `Problem` for starts without their user."""
        asked = self.asked
        return recommend(
            views[self.kind],
            self._user,
            limit=asked.limit,
            walks=asked.walks,
            walk_length=asked.walk_length,
            reset_probability=asked.reset_probability,
            recency=asked.recency,
            seed=self._seed,
            early_stop=asked.early_stop,
            budget_s=WALKING * deadline.left,
            explain=self._explain,
            starts=self._starts.within(views, self._user),
            allowed=self._allowed(views[self.kind]),
        )

    def _allowed(self, view: Bipartite) -> Bools | None:
        """By item number, whether an item may be recommended; None where all may."""
        rules, kind = self._rules, self.kind
        excluded = self.excluded | rules.denied[kind] | rules.members(kind, self.asked.without_categories)
        granted = rules.allowed(kind)
        only = [] if granted is None else [granted]
        if self.asked.categories:
            only.append(rules.members(kind, self.asked.only_categories))
        if not excluded and not only:
            return None
        allowed = np.ones(len(view.items), np.bool_)
        for items in only:
            listed = np.zeros(len(view.items), np.bool_)
            listed[view.numbers(items)] = True
            allowed &= listed
        allowed[view.numbers(excluded)] = False
        return allowed


def slot_seed(name: str, stable_s: int, now: float) -> int | None:
    """The seed of `name` in the time slot of `now` (seconds), the same in all processes; None for slots of 0 seconds.

    Slots have the length `stable_s`. They end at other moments for other names, so not all lists change at once.
    """
    if not stable_s:
        return None
    slot = (int(now) + _digest(name) % stable_s) // stable_s
    return _digest(f"{name} {slot}")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
