"""Recommendations by personalised SALSA: random walks from the user over users and items.

The chain is SALSA's (Lempel & Moran, ACM TOIS 19(2), 2001) on the user's neighbourhood, walked by dice as in
GraphJet (Sharma et al., VLDB 2016); stopping early follows Pixie (Eksombatchai et al., WWW 2018).
"""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph import Bipartite
from services.recommendations.lists import LENGTH
from services.recommendations.visits import Leaders, Visits

BLOCK = 256  # walkers in step: enough to keep the memory busy, few enough to look at the clock often
WARM_UP = 4 * BLOCK  # walks before the first look at whether the list is settled; a look costs 100 walks
PACE = 1.5  # the next look is after so many times more walks

Int32s = NDArray[np.int32]
Scored = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The result of `recommend`."""

    items: Scored
    """(item id, score), best first, ties by id. The score is the number of visits; of edges if `fallback`."""
    walks: int
    """Finished walks."""
    partial: bool = False
    """The time budget ended the walks; further walks would improve the ranking."""
    fallback: bool = False
    """The user has no edges, or the walks met nothing new: the items are the most popular items."""
    explanations: dict[int, Scored] = field(default_factory=dict)
    """Item id -> (known item's id, visits through it), most first; the visits add up to the score."""


def recommend(
    graph: Bipartite,
    user_id: int,
    *,
    limit: int = 10,
    walks: int = 1000,
    walk_length: int = 100,
    reset_probability: float = 0.1,
    seed: int | None = None,
    early_stop: bool = False,
    budget_s: float | None = None,
    explain: bool = False,
) -> Recommendation:
    """At most `limit` items unknown to the user, by the number of visits of walkers.

    A walker starts at the user. In each of `walk_length` / 2 rounds (rounded up) the walker goes back to the
    user with `reset_probability`, else along an edge of the current user to an item, which counts as a visit, and
    along an edge of the item to a user. A repeated play is a further edge, so repeated plays weigh more.

    The same `seed` on the same graph gives the same list. `early_stop` ends at a settled list (savings: see
    `Leaders`). `budget_s` (seconds) ends the walks after the current block; the first block is always finished.
    `explain` fills `explanations`. The caller checks the ranges: counts from 1.
    """
    known, rounds = graph.known(user_id), (walk_length + 1) // 2
    visits = Visits(
        graph,
        user_id,
        walks=walks,
        rounds=rounds,
        reset=reset_probability,
        seed=seed,
        explain=explain,
    )
    partial = len(known) > 0 and _walk(visits, walks, limit if early_stop else None, budget_s)
    items, scores = _top(graph, *visits.unknown(), limit)
    if len(items) == 0:
        popular = _popular(graph, known, limit)
        return Recommendation(_scored(graph, *popular), visits.walks, partial, fallback=True)
    explanations = _explained(graph, visits, items) if explain else {}
    return Recommendation(_scored(graph, items, scores), visits.walks, partial, explanations=explanations)


def _walk(visits: Visits, walks: int, settle: int | None, budget_s: float | None) -> bool:
    """Walk in blocks until done, the first `settle` items are settled, or (True) the budget is spent."""
    deadline = np.inf if budget_s is None else time.monotonic() + budget_s
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


def _top(graph: Bipartite, items: Int32s, scores: Int32s, limit: int) -> tuple[Int32s, Int32s]:
    """The best `limit` of the items, ties by id; ids are looked up only for candidates of the list."""
    if len(items) > limit:
        enough = scores >= np.sort(scores)[-limit]
        items, scores = items[enough], scores[enough]
    order = np.lexsort((graph.item_names.external[items], -scores))[:limit]
    return items[order], scores[order]


def _popular(graph: Bipartite, known: Int32s, limit: int) -> tuple[Int32s, Int32s]:
    edges = graph.items[:, LENGTH].copy()
    edges[known] = 0
    items = np.flatnonzero(edges > 0).astype(np.int32)
    return _top(graph, items, edges[items], limit)


def _explained(graph: Bipartite, visits: Visits, items: Int32s) -> dict[int, Scored]:
    ids = graph.item_names.external[items].tolist()
    through = (visits.through(item) for item in items)
    ranked = (_top(graph, *vias, len(vias[0])) for vias in through)
    return {item_id: _scored(graph, *vias) for item_id, vias in zip(ids, ranked, strict=True)}


def _scored(graph: Bipartite, items: Int32s, scores: Int32s) -> Scored:
    return list(zip(graph.item_names.external[items].tolist(), scores.tolist(), strict=True))
