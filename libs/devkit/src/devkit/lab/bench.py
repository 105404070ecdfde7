"""`make bench`: the performance of the system on this machine, measured on real parts and checked for exactness.

The order of the parts keeps them from disturbing each other.
"""

import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings

from devkit import DevkitError
from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab.measures import callers, freshness, ingest, overload, profiles, reads, recommendations, watchers
from devkit.lab.measures.reads import STREAMS, WALKED, of_cluster
from devkit.lab.plays import RATE, Data
from devkit.lab.servers import WARM_S, folded, restart, servers, streaming
from devkit.lab.targets import Report, run
from devkit.names import known, names
from services.metrics.model import APP
from streamstate.profile import SERVICE as PROFILE
from streamstate.verify.check import Check

PAGE = Path("docs/bench.md")
PARTS = ("ingest", "reads", "freshness", "overload", "recommendations", "watchers", "callers", "profile")


class BenchSettings(BaseSettings):
    """The bench."""

    only: Annotated[str, known("part", PARTS)] = Field(
        "", description=f"parts to run, separated by commas: {', '.join(PARTS)}; empty: all, and the report is written"
    )
    events: int = Field(2_000_000, ge=100_000, description="listening events that the state is made of")

    def runs(self, *parts: str) -> bool:
        """Whether the run has at least one of `parts`."""
        return not self.only or not set(parts).isdisjoint(names(self.only))


def measure(settings: BenchSettings, home: Path, report: Report) -> None:
    """Run the parts; a run of all parts, or of profiles, writes the page.

    Raises `StreamStateError` when a part cannot be measured or a state is not exact.
    """
    data, runs = Data.make(settings.events), settings.runs
    if runs("recommendations"):
        recommendations.measure(data.plays, data.users(), report)
    if runs("profile"):
        profiles.measure(home / "profile", report)
        _habits(home / "habits", data, report)
    if runs("ingest", "reads", "freshness", "overload"):
        with servers(home / "cluster") as cluster:
            _over_cluster(cluster, settings, data, report)
    if runs("watchers"):
        watchers.measure(home / "watchers", data, report)
    if runs("callers"):
        callers.measure(home / "callers", report)
    if not settings.only:
        conditions = f"- {os.cpu_count()} cores\n- a state of {settings.events:,} seeded events in 8 partitions\n"
        report.write(PAGE, conditions)
    elif settings.only == "profile":
        report.write(PAGE)


def _over_cluster(cluster: LocalCluster, settings: BenchSettings, data: Data, report: Report) -> None:
    data.send(cluster.kafka.bootstrap)
    if settings.runs("ingest"):
        ingest.measure(cluster, settings.events, report)
    if settings.runs("reads", "freshness", "overload"):
        _serve(cluster, settings, data, report)
    say("counting the events again")
    counted = Check(APP, cluster.settings).run()
    if counted.differences:
        msg = f"{counted}, such as {counted.differences[0]}; do not trust the figures"
        raise DevkitError(msg)


def _serve(cluster: LocalCluster, settings: BenchSettings, data: Data, report: Report) -> None:
    """The parts over all services, with everything folded."""
    kafka, users, runs = cluster.kafka.bootstrap, data.users(), settings.runs
    with folded(cluster) as streams:
        requests = of_cluster(cluster, streams, users)
        owner, *_ = requests
        if runs("reads"):
            walks_ms = recommendations.loaded(cluster, users, report)
            paced = reads.idle(requests, report)
        if runs("reads", "freshness"):
            with data.steady(kafka):
                say(f"{RATE:,} events a second, warming up")
                time.sleep(WARM_S)
                if runs("freshness"):
                    trees = {name: owner.trees[name] for name in (STREAMS, "Redis")}
                    freshness.measure(kafka, owner.address, trees).tell(report)
                if runs("reads"):
                    reads.loaded(requests, paced, report)
        if runs("reads"):
            restart(cluster, recommendations.SERVICE, STABLE_S="0")  # walks for each answer
            *_, combined = of_cluster(cluster, streams, users)
            reads.walked(replace(combined, name=WALKED), walks_ms, report)
        if runs("overload"):
            overload.measure(owner).tell(report)


def _habits(home: Path, data: Data, report: Report) -> None:
    """The freshness of metrics beside a profile of the same events, in one process."""
    with servers(home, services=(APP.name, PROFILE)) as cluster, ExitStack() as running:
        for api in cluster.apis:
            running.enter_context(api)
        streams = running.enter_context(streaming(cluster, *cluster.addresses))
        running.enter_context(data.steady(cluster.kafka.bootstrap))
        time.sleep(WARM_S)
        trees = {STREAMS: streams.pid, "Redis": cluster.redis.pid}
        delays = freshness.measure(cluster.kafka.bootstrap, cluster.addresses[APP.name][0], trees)
    report.profiles += delays.targets(f"freshness of metrics with habits at {RATE:,} events/s", 115, 200)


if __name__ == "__main__":
    raise SystemExit(run(BenchSettings, measure, misses_fail=False))
