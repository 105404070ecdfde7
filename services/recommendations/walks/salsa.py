"""Recommendations by personalised SALSA: random walks from the user over users and items.

The chain is SALSA's (Lempel & Moran, ACM TOIS 19(2), 2001) on the user's neighbourhood, walked by dice as in
GraphJet (Sharma et al., VLDB 2016); stopping early follows Pixie (Eksombatchai et al., WWW 2018).

A walker starts at the user. In each round, the walker goes back to the user with the reset probability, else visits
`LOOKS` items along edges of the current user, and goes on from the first along an edge of the item to a user. A
repeated play is a further edge, so repeated plays weigh more. With recency r, the edge at the fraction x of a node's
edges (0: the oldest, 1: the newest) has the weight x**r.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph.bipartite import Bipartite
from services.recommendations.walks.popular import most_heard, only_leading
from services.recommendations.walks.visits import Leaders, Steps, Visits, generator

WALKS = 320
"""By default: with them the best ten are as good as GraphJet's of 1,000 walks."""

BLOCK = 320  # walkers in step: enough to keep the memory busy, few enough to read the clock often
WARM_UP = 2 * BLOCK  # walks before the first check whether the list is settled; a check costs 50 walks
PACE = 1.5  # the next check is after so many times more walks

Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]
NONE = np.empty(0, np.int32)
Scored = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The result of `recommend`."""

    items: Scored
    """(item id, score), best first, ties by id. The score is the number of visits; of listeners if `fallback`."""
    walks: int
    """Finished walks."""
    partial: bool = False
    """The time budget ended the walks; further walks would improve the ranking."""
    fallback: bool = False
    """The user has no edges, or the walks met nothing new: the items have the most listeners."""
    explanations: dict[int, Scored] = field(default_factory=dict)
    """Item id -> (known item's id, visits through it), most first; the visits add up to the score."""


class Start(NamedTuple):
    """The users among whom a walker draws its home, and the weight of the start among several starts."""

    users: Int32s
    weight: float = 1.0


def recommend(
    graph: Bipartite,
    user_id: int | None,
    *,
    limit: int = 10,
    walks: int = WALKS,
    walk_length: int = 100,
    reset_probability: float = 0.1,
    recency: float = 0,
    seed: int | None = None,
    early_stop: bool = False,
    budget_s: float | None = None,
    explain: bool = False,
    starts: Sequence[Start] = (),
    allowed: Bools | None = None,
) -> Recommendation:
    """At most `limit` items unknown to the user, by the number of visits of walkers.

    A walk has `walk_length` / 2 rounds, rounded up. With `starts`, the walks start there instead, divided by weight;
    `_leading` has the scores. `allowed` tells by item number whether an item may be recommended. Without a user,
    nothing is known, and there is no fallback.

    The same `seed` on the same graph gives the same list. `early_stop` ends at a settled list of a single start
    (savings: see `Leaders`). `budget_s` (seconds) ends the walks after the current block; the first block of each start
    is always finished. `explain` fills `explanations`, for a single start. The caller checks the ranges: counts from 1.
    """
    known = NONE if allowed is None else np.flatnonzero(~allowed).astype(np.int32)
    if user_id is not None:
        known = np.concatenate([known, graph.known(user_id)])
        starts = starts or (Start(graph.at(user_id)),)
    starts = [start for start in starts if len(start.users)]
    steps = Steps((walk_length + 1) // 2, reset_probability, recency, generator(seed))
    shares = _shares(walks, starts)
    to_walk = list(zip(starts, shares, strict=True))
    all_visits = [Visits(graph, start.users, known, n, steps, explain=explain) for start, n in to_walk]
    settle = limit if early_stop and len(starts) == 1 else None
    deadline = np.inf if budget_s is None else time.monotonic() + budget_s
    ended = [_walk(visits, n, settle, deadline) for visits, n in zip(all_visits, shares, strict=True)]
    items, scores = _top(graph, *_leading(all_visits, limit), limit)
    finished = sum(visits.walks for visits in all_visits)
    if len(items) == 0 and user_id is not None:
        popular = most_heard(graph, known, limit)
        return Recommendation(_scored(graph, *_top(graph, *popular, limit)), finished, any(ended), fallback=True)
    explanations = _explained(graph, all_visits[0], items) if explain and len(starts) == 1 else {}
    return Recommendation(_scored(graph, items, scores), finished, any(ended), explanations=explanations)


def _shares(walks: int, starts: Sequence[Start]) -> list[int]:
    """The walks of each start, by weight, at least one."""
    total = sum(start.weight for start in starts)
    return [max(1, round(walks * start.weight / total)) for start in starts]


def _walk(visits: Visits, walks: int, settle: int | None, deadline: float) -> bool:
    """Walk in blocks until done, the first `settle` items are settled, or (True) the time is over."""
    leaders, look = None, float(WARM_UP)
    while visits.walks < walks:
        if visits.walks and time.monotonic() >= deadline:
            return True
        visits.more(min(BLOCK, walks - visits.walks))
        if settle is not None and look <= visits.walks < walks:
            leaders, look = leaders or Leaders(visits, settle), PACE * visits.walks
            if leaders.settled():
                break
    return False


def _leading(all_visits: Sequence[Visits], most: int) -> tuple[Int32s, Int32s]:
    """Numbers and scores of the items with at least the `most`th score: (sum of sqrt(visits from a start))**2.

    The multi-hit booster of Pixie (Eksombatchai et al., "Pixie: A System for Recommending 3+ Billion Items to 200+
    Million Users in Real-Time", WWW 2018, section 3.1): an item related to several starts is before an item with as
    many visits from one start. The visits from a single start are the scores themselves. Unlike in Pixie, the
    walks of a start do not depend on its number of edges.
    """
    if len(all_visits) == 1:
        return all_visits[0].unknown(most)
    counts = [visits.unknown() for visits in all_visits]
    items = np.concatenate([NONE, *(items for items, _ in counts)])
    visits = np.concatenate([NONE, *(visits for _, visits in counts)])
    found, at = np.unique(items, return_inverse=True)
    scores = np.rint(np.bincount(at, np.sqrt(visits), len(found)) ** 2).astype(np.int32)
    count = only_leading(found, scores, most)
    return found[:count], scores[:count]


def _top(graph: Bipartite, items: Int32s, scores: Int32s, limit: int) -> tuple[Int32s, Int32s]:
    """The best `limit` of the items, ties by id."""
    order = np.lexsort((graph.item_names.external[items], -scores))[:limit]
    return items[order], scores[order]


def _explained(graph: Bipartite, visits: Visits, items: Int32s) -> dict[int, Scored]:
    ids = graph.item_names.external[items].tolist()
    through = (visits.through(item) for item in items)
    ranked = (_top(graph, *vias, len(vias[0])) for vias in through)
    return {item_id: _scored(graph, *vias) for item_id, vias in zip(ids, ranked, strict=True)}


def _scored(graph: Bipartite, items: Int32s, scores: Int32s) -> Scored:
    return list(zip(graph.item_names.external[items].tolist(), scores.tolist(), strict=True))
