"""The random walk as a kernel: thousands of walkers in step.

Each phase is a loop over all walkers without dependencies, so the processor waits for many memory accesses at once:
several times as fast as a walker after another. Indexes are unsigned, which saves Python's wrap-around; an edge always
leads to a node that has an edge back.
"""

import numpy as np
from numpy.typing import NDArray

from services.recommendations.graph.kernel import kernel
from services.recommendations.graph.lists import LENGTH, START

GAMMA = np.uint64(0x9E3779B97F4A7C15)
LOW_HALF, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

LOOKS = 4
"""Visited items of a user in a round, of which a walker follows the first.

A further look costs a fifth of a round. The best ten of 320 walks with 4 looks are as good as of 1,000 walks with 1.
"""

DISTANCE = np.uint64(2**32 // LOOKS) << HALF
"""Between two looks, in draws."""

Int32s = NDArray[np.int32]
Words = NDArray[np.uint64]


@kernel
def walk(
    users: Int32s,
    user_edges: Int32s,
    items: Int32s,
    item_edges: Int32s,
    starts: Int32s,
    walkers: int,
    rounds: int,
    reset: np.uint64,
    evenness: float,
    state: Words,
    trail: Int32s,
    vias: Int32s,
) -> int:
    """Let `walkers` start and write visited items to `trail`; returns the number of visits.

    The home of a walker is a user number of `starts`, drawn for each walker. A round is a reset to the home (with
    probability `reset` / 2**32) or a look at `LOOKS` items of the user, which are visits, a step to the first of these
    items, and a step to a user of the item. The looks are at even distances in the user's edges: systematic sampling,
    in which each edge is as likely as in a single draw. `evenness` is 1 where all edges of a node are as likely, below
    1 where newer edges are likelier (see `_place`). `trail` has room for walkers * rounds * LOOKS. `vias`, as long or
    empty, gets for each visit the item by which the walker last left its home. `state` is the generator's single word.
    """
    via, going = np.zeros(walkers, np.int32), np.empty(walkers, np.int32)
    edge, draws = np.empty(walkers, np.uint64), np.empty(2 * walkers, np.uint64)
    homes = _homes(starts, walkers, evenness, state, draws)
    at, on_at = homes.copy(), np.empty(walkers, np.int32)
    visits = 0
    for _ in range(rounds):
        _draw(state, draws)
        on = _leave(homes, reset, draws, at, going, on_at)
        for look in range(LOOKS):
            seen = trail[visits + look * on :]
            for k in range(on):
                edge[k] = _pick(users, on_at[k], draws[k] + np.uint64(look) * DISTANCE, evenness)
            for k in range(on):
                seen[k] = user_edges[edge[k]]
        for k in range(on):
            edge[k] = _pick(items, trail[visits + k], draws[walkers + k], evenness)
        for k in range(on):
            at[np.uint64(going[k])] = item_edges[edge[k]]
        if len(vias):
            _note(homes, going[:on], on_at, via, trail[visits:], vias[visits:])
        visits += LOOKS * on
    return visits


@kernel
def _homes(starts: Int32s, walkers: int, evenness: float, state: Words, draws: Words) -> Int32s:
    """The home of each walker. `draws` has room for a word of each."""
    homes = np.full(walkers, starts[0], np.int32)
    if len(starts) > 1:
        _draw(state, draws)
        for walker in range(walkers):
            homes[walker] = starts[_place(draws[walker], np.uint64(len(starts)), evenness)]
    return homes


@kernel
def _leave(homes: Int32s, reset: np.uint64, draws: Words, at: Int32s, going: Int32s, on_at: Int32s) -> int:
    """Reset walkers: the number of moving walkers, with their numbers, users and draws first. `at` becomes `homes`."""
    on = 0
    for walker in range(len(at)):
        going[on], on_at[on], draws[on] = walker, at[walker], draws[walker]
        at[walker] = homes[walker]
        on += int((draws[on] & LOW_HALF) >= reset)  # the next walker overwrites a reset walker
    return on


@kernel
def _note(homes: Int32s, going: Int32s, on_at: Int32s, via: Int32s, trail: Int32s, vias: Int32s) -> None:
    """For each visit of the round, the item through which its walker last left its home."""
    for k in range(len(going)):
        if on_at[k] == homes[going[k]]:
            via[going[k]] = trail[k]
        for visit in range(k, LOOKS * len(going), len(going)):
            vias[visit] = via[going[k]]


@kernel
def _draw(state: Words, draws: Words) -> None:
    """Fill `draws` with 64 random bits each: SplitMix64 (Steele, Lea & Flood, OOPSLA 2014)."""
    first = state[0]
    for k in range(len(draws)):
        z = first + np.uint64(k) * GAMMA
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        draws[k] = z ^ (z >> np.uint64(31))
    state[0] = first + np.uint64(len(draws)) * GAMMA


@kernel
def _pick(nodes: Int32s, node: np.int32, draw: np.uint64, evenness: float) -> np.uint64:
    """The place of an edge of the node."""
    at = np.uint64(node)
    start, length = np.uint64(nodes[at, START]), np.uint64(nodes[at, LENGTH])
    return start + _place(draw, length, evenness)


@kernel
def _place(draw: np.uint64, length: np.uint64, evenness: float) -> np.uint64:
    """A number below `length`, by the upper half of `draw`: a fraction of 2**32, raised to the power `evenness`.

    Edges are oldest first, so the edge at the fraction x of a list gets the weight x ** (1 / evenness - 1).
    """
    upper = draw >> HALF
    if evenness != 1.0:
        upper = np.uint64(min((float(upper) / 2.0**32) ** evenness * 2.0**32, 2.0**32 - 1))
    return upper * length >> HALF
