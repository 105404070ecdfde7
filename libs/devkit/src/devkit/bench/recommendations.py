"""`make bench-recommendations`: the graph, the walks and the API over two million seeded plays, beside GraphJet."""

import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import Field
from pydantic_settings import BaseSettings

from devkit.bench import graphjet
from devkit.bench.exact import Chain, listening
from devkit.bench.plays import Int64s, with_homes
from devkit.bench.reads import percentile
from devkit.bench.served import Row, served
from devkit.demo import CACHE, say
from devkit.lab import Lab, Plan
from devkit.process import free_port
from services.events import KINDS
from services.recommendations.graph import Bipartite, Graph
from services.recommendations.live import warm_up
from services.recommendations.salsa import recommend
from streamstate.settings import load

SEED, USERS, TRACKS, EVENTS = 1, 50_000, 1_000_000, 2_000_000
BATCH, ASKED, MANY = 50_000, 1_000, 10_000
JUDGED_USERS, JUDGED_EVENTS, JUDGED = 2_000, 100_000, 100
RESET, ROUNDS, LIMIT = 0.1, 100, 10
GRAPHJET_USERS = 60
REPORT = Path("docs/bench-recommendations.md")

HEAD = f"""# Figures of recommendations

Written by `make bench-recommendations`: {EVENTS:,} seeded plays of {USERS:,} users in one graph of all three kinds; a
play is an edge of each kind. A request is for tracks and by default: 1,000 walks of 100 steps. CPU is the thread's
time, or over HTTP the server's. Everything runs on one machine, the clients too. Precision is the share of the exact
best ten (power iteration) that is found, over {JUDGED_USERS:,} users and {JUDGED_EVENTS:,} plays. GraphJet is
Twitter's, run on the same plays of tracks (its walks take odd lengths: 99).
"""


class BenchSettings(BaseSettings):
    """What the bench takes from the environment."""

    graphjet: str = Field(
        "", description="a command that measures GraphJet on a file of edges, to be held against; empty: left out"
    )


@dataclass(frozen=True)
class Times:
    """Milliseconds of calls, wall and CPU."""

    wall: list[float]
    cpu: list[float]

    @property
    def cpu_ms(self) -> float:
        return percentile(self.cpu, 0.5)

    def __str__(self) -> str:
        wall = f"p50 {percentile(self.wall, 0.5):.2f} ms, p99 {percentile(self.wall, 0.99):.2f} ms"
        return f"{wall}, CPU {self.cpu_ms:.2f} ms"


def main() -> None:
    """Measure and write `REPORT`."""
    warm_up()
    plays = with_homes(listening(SEED, USERS, TRACKS, EVENTS))
    say(f"taking in {EVENTS} plays")
    graph, rows = taken_in(plays)
    users = np.random.default_rng(SEED).choice(np.unique(plays[:, 0]), ASKED, replace=False).tolist()
    view = graph.view("tracks")
    say(f"walking from {ASKED} users")
    default = timed(view, users)
    rows += [*walked(view, users, default), *judged()]
    with tempfile.TemporaryDirectory() as home:
        if command := load(BenchSettings, "").graphjet:
            say("the same with GraphJet")
            rows += beside(graphjet.measure(command, plays[:, [0, 3]], GRAPHJET_USERS, Path(home)), default)
        lab = Lab(Plan(Path(home), CACHE, free_port(), free_port(), free_port()), say)
        try:
            lab.start_servers()
            rows += served(lab, plays, users)
        finally:
            lab.stop()
    table = "\n".join(["| what | figure |", "| --- | --- |", *(f"| {what} | {figure} |" for what, figure in rows)])
    REPORT.write_text(f"{HEAD}\n{table}\n")
    sys.stdout.write(f"{table}\n")


def taken_in(plays: Int64s) -> tuple[Graph, list[Row]]:
    """The graph of all plays, and what it took."""
    graph, before = Graph(KINDS, len(plays)), time.thread_time()
    for first in range(0, len(plays), BATCH):
        graph.append(plays[first : first + BATCH])
    seconds = time.thread_time() - before
    return graph, [
        ("ingest, edges a CPU second, one thread", f"{len(KINDS) * len(plays) / seconds:,.0f}"),
        ("ingest, plays (of three edges) a CPU second, one thread", f"{len(plays) / seconds:,.0f}"),
        ("memory of the graph, bytes a play, all three kinds", f"{graph.nbytes / len(plays):.1f}"),
    ]


def timed(view: Bipartite, users: list[int], walks: int = 1_000, *, early_stop: bool = False) -> Times:
    """One recommendation for each of `users`."""
    wall, cpu = [], []
    for user in users:
        started, before = time.perf_counter(), time.thread_time()
        recommend(view, user, walks=walks, seed=user, early_stop=early_stop)
        wall.append(1000 * (time.perf_counter() - started))
        cpu.append(1000 * (time.thread_time() - before))
    return Times(wall, cpu)


def walked(view: Bipartite, users: list[int], default: Times) -> list[Row]:
    """Inside the process: times, and how many a second."""
    few = users[: ASKED // 5]
    return [
        ("a request, inside the process", str(default)),
        ("the same with early stopping", str(timed(view, users, early_stop=True))),
        (f"{MANY:,} walks", str(timed(view, few, MANY))),
        (f"{MANY:,} walks with early stopping", str(timed(view, few, MANY, early_stop=True))),
        ("requests a second inside the process, one thread", f"{rate(view, users, 1):,.0f}"),
        ("requests a second inside the process, two threads", f"{rate(view, users, 2):,.0f}"),
    ]


def rate(view: Bipartite, users: list[int], threads: int) -> float:
    """Recommendations a second by so many threads."""
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(partial(recommend, view), users))
    return len(users) / (time.perf_counter() - started)


def judged() -> list[Row]:
    """Precision against the exact ranking."""
    say("judging against exact scores")
    plays = listening(SEED, JUDGED_USERS, events=JUDGED_EVENTS)
    chain, graph = Chain(plays), Graph(("tracks",), JUDGED_EVENTS)
    graph.append(plays)
    chosen = np.random.default_rng(SEED).choice(chain.users, JUDGED, replace=False).tolist()
    best = {user: set(chain.best(user, RESET, ROUNDS, LIMIT)) for user in chosen}
    view = graph.view("tracks")

    def precision(walks: int, *, early_stop: bool) -> str:
        found = {user: recommend(view, user, walks=walks, seed=user, early_stop=early_stop).items for user in best}
        return (
            f"{statistics.mean(len(best[u] & {i for i, _ in items}) / len(best[u]) for u, items in found.items()):.3f}"
        )

    return [
        ("precision@10, 1,000 walks", precision(1_000, early_stop=False)),
        ("precision@10, 1,000 walks with early stopping", precision(1_000, early_stop=True)),
        (f"precision@10, {MANY:,} walks", precision(MANY, early_stop=False)),
        (f"precision@10, {MANY:,} walks with early stopping", precision(MANY, early_stop=True)),
    ]


def beside(theirs: graphjet.GraphJet, ours: Times) -> list[Row]:
    """GraphJet in the same run."""
    return [
        ("GraphJet: ingest, edges a CPU second", f"{theirs.edges:,.0f}"),
        ("GraphJet: a request, CPU p50", f"{theirs.walks_ms:.0f} ms"),
        ("GraphJet's CPU a request over ours", f"{theirs.walks_ms / ours.cpu_ms:,.0f} times"),
    ]


if __name__ == "__main__":
    main()
