"""The recommender inside this process: its graph and its walks, without HTTP."""

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab.plays import Int64s
from devkit.lab.targets import Report
from services.events import KINDS
from services.recommendations.graph.bipartite import Graph
from services.recommendations.graph.live import Live, warm_up
from services.recommendations.settings import WindowSettings
from services.recommendations.walks.salsa import WALKS, recommend
from streamstate import bootstrap
from streamstate.settings import load

SERVICE = "recommendations"
SECTION = "Recommender, inside its process"
BATCH, ASKED = 50_000, 1_000


def measure(plays: Int64s, users: Sequence[int], report: Report) -> None:
    """The graph of `plays`, int64 of shape (n, 4), and recommendations of tracks for `users`."""
    say("the recommender inside this process")
    warm_up()
    graph = Graph(KINDS, len(plays))
    taken = sum(cpu_ms(partial(graph.append, plays[first : first + BATCH])) for first in range(0, len(plays), BATCH))
    view = graph.view("tracks")
    times = [cpu_ms(partial(recommend, view, user)) for user in users[:ASKED]]
    p50, p99 = np.percentile(times, (50, 99)).tolist()
    report.figures[SECTION] |= {
        "plays taken in a CPU second, an edge of each kind": f"{1000 * len(plays) / taken:,.0f}",
        "memory of the graph, bytes a play": f"{graph.nbytes / len(plays):.1f}",
        f"a list of tracks, {WALKS} walks of 100 steps, CPU": f"p50 {p50:.2f} ms, p99 {p99:.2f} ms",
    }


def cpu_ms(call: Callable[[], object]) -> float:
    """CPU milliseconds of the current thread in `call`."""
    before = time.thread_time()
    call()
    return 1000 * (time.thread_time() - before)


def loaded(cluster: LocalCluster, users: Sequence[int], report: Report) -> float:
    """Load the graph of the cluster's recommender, with compiled kernels.

    Returns mean CPU milliseconds of the three lists of a combined answer.
    """
    say("the walks of a combined answer")
    warm_up()
    live = Live(bootstrap.store(cluster.redis.url, 60, SERVICE), load(WindowSettings).window)
    started, before = time.perf_counter(), time.thread_time()
    while live.step():
        pass
    seconds, used = time.perf_counter() - started, time.thread_time() - before
    graph = live.graph()
    report.figures[SECTION][f"loading {len(graph):,} plays from Redis"] = f"{seconds:.1f} s, CPU {used:.1f} s"
    views = [graph.view(kind) for kind in KINDS]
    walks_ms = statistics.mean(sum(cpu_ms(partial(recommend, view, user)) for view in views) for user in users[:ASKED])
    report.figures[SECTION]["the three walks of a combined answer, CPU"] = f"{walks_ms:.2f} ms"
    return walks_ms
