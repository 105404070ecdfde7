"""The recommender inside this process: its graph, its walks and how good they are, without HTTP."""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from devkit.bench.data import SEED
from devkit.bench.exact import Chain, listening
from devkit.bench.plays import Int64s
from devkit.local_cluster import LocalCluster
from services.events import KINDS
from services.recommendations.graph import Bipartite, Graph
from services.recommendations.live import Live, warm_up
from services.recommendations.salsa import recommend
from services.recommendations.settings import WindowSettings
from streamstate import bootstrap
from streamstate.settings import load

BATCH, ASKED, MANY = 50_000, 1_000, 10_000
JUDGED_USERS, JUDGED_EVENTS, JUDGED = 2_000, 100_000, 100
RESET, ROUNDS, LIMIT = 0.1, 100, 10

Row = tuple[str, str]


@dataclass(frozen=True)
class Recommender:
    """Figures of the recommender; `request_ms` is the median CPU time of a list of tracks."""

    rows: Sequence[Row]
    request_ms: float


def graph_of(plays: Int64s) -> Graph:
    """The graph of `plays`, int64 of shape (n, 4)."""
    graph = Graph(KINDS, len(plays))
    for first in range(0, len(plays), BATCH):
        graph.append(plays[first : first + BATCH])
    return graph


def walks_ms(graph: Graph, users: Sequence[int]) -> float:
    """Mean CPU milliseconds of the three lists of a combined answer."""
    views = [graph.view(kind) for kind in KINDS]
    warm_up()
    return 1000 * statistics.mean(cpu_s(partial(_all_kinds, views, user)) for user in users[:ASKED])


def _all_kinds(views: Sequence[Bipartite], user: int) -> None:
    for view in views:
        recommend(view, user)


def cpu_s(call: Callable[[], object]) -> float:
    """CPU seconds of this thread in `call`."""
    before = time.thread_time()
    call()
    return time.thread_time() - before


def measure(plays: Int64s, users: Sequence[int]) -> Recommender:
    """The graph of `plays`, and recommendations of tracks for `users`."""
    warm_up()
    before = time.thread_time()
    graph = graph_of(plays)
    taken = time.thread_time() - before
    view, asked = graph.view("tracks"), users[:ASKED]
    times = [1000 * cpu_s(partial(recommend, view, user)) for user in asked]
    many = [1000 * cpu_s(partial(recommend, view, user, walks=MANY)) for user in asked[: ASKED // 5]]
    request_ms = statistics.median(times)
    rows = [
        ("plays taken in a CPU second, an edge of each kind", f"{len(plays) / taken:,.0f}"),
        ("memory of the graph, bytes a play", f"{graph.nbytes / len(plays):.1f}"),
        ("1,000 walks of 100 steps, CPU", f"p50 {request_ms:.2f} ms, p99 {np.percentile(times, 99):.2f} ms"),
        (f"{MANY:,} walks, CPU", f"p50 {statistics.median(many):.2f} ms, p99 {np.percentile(many, 99):.2f} ms"),
        *((f"requests a second by {n} thread{'s' * (n > 1)}", f"{rate(view, asked, n):,.0f}") for n in (1, 2)),
        *judged(),
    ]
    return Recommender(rows, request_ms)


def rate(view: Bipartite, users: Sequence[int], threads: int) -> float:
    """Recommendations a second by so many threads."""
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(partial(recommend, view), users))
    return len(users) / (time.perf_counter() - started)


def judged() -> list[Row]:
    """The share of the exact best ten (power iteration) that the walks find."""
    plays = listening(SEED, JUDGED_USERS, events=JUDGED_EVENTS)
    chain, graph = Chain(plays), Graph(("tracks",), JUDGED_EVENTS)
    graph.append(plays)
    chosen = np.random.default_rng(SEED).choice(chain.users, JUDGED, replace=False).tolist()
    best = {user: set(chain.best(user, RESET, ROUNDS, LIMIT)) for user in chosen}
    view = graph.view("tracks")

    def precision(walks: int) -> float:
        lists = {user: recommend(view, user, walks=walks, seed=user).items for user in best}
        return statistics.mean(len(best[u] & {i for i, _ in items}) / len(best[u]) for u, items in lists.items())

    return [(f"precision@10, {walks:,} walks", f"{precision(walks):.3f}") for walks in (1_000, MANY)]


def loaded(cluster: LocalCluster) -> tuple[Graph, Row]:
    """The graph that the cluster's recommender has, and what it takes to load it, apart from compiling its kernels."""
    store = bootstrap.store(cluster.redis.url, 60, "recommendations")
    live = Live(store, load(WindowSettings).window)
    started, before = time.perf_counter(), time.thread_time()
    while live.step():
        pass
    seconds, used = time.perf_counter() - started, time.thread_time() - before
    graph = live.graph()
    return graph, (f"loading {len(graph):,} plays from Redis", f"{seconds:.1f} s, CPU {used:.1f} s")
