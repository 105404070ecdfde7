"""A run, part by part. The order keeps the parts from disturbing each other."""

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from devkit import DevkitError
from devkit.bench.data import Data
from devkit.bench.lab import WARM_S, folded, restart, servers, streaming
from devkit.bench.measures import freshness, ingest, overload, profile, recommendations
from devkit.bench.measures.reads import STREAMS, WALKED, Reads, of_cluster
from devkit.bench.report import RATE, BenchReport
from devkit.bench.settings import BenchSettings
from devkit.bench.watchers import measure as watchers
from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from services.metrics.model import APP
from streamstate.profile import SERVICE as PROFILE
from streamstate.verify.check import Check
from streamstate.verify.replay import recounted


class BenchRun:
    """The selected parts of `settings`, with all files in the folder `home`."""

    def __init__(self, settings: BenchSettings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._report = BenchReport()
        self._data = Data.make(settings.events)
        self._users = self._data.users()

    def measure(self) -> BenchReport:
        """Raises `StreamStateError` when a part cannot be measured or a state is not exact."""
        runs = self._settings.runs
        if runs("recommendations"):
            recommendations.measure(self._data.plays, self._users, self._report)
        if runs("profile"):
            profile.measure(self._home / "profile", self._report)
            self._habits()
        if runs("ingest", "reads", "freshness", "overload"):
            with servers(self._home) as cluster:
                self._over_cluster(cluster)
        if runs("watchers"):
            watchers.measure(self._home / "watchers", self._data, self._report)
        return self._report

    def _over_cluster(self, cluster: LocalCluster) -> None:
        self._data.send(cluster.kafka.bootstrap)
        if self._settings.runs("ingest"):
            ingest.measure(cluster, self._settings.events, self._report)
        if self._settings.runs("reads", "freshness", "overload"):
            self._serve(cluster)
        say("counting the events again")
        found = Check(recounted(APP), cluster.settings).run()
        if found.differences:
            msg = f"{found}, such as {found.differences[0]}; do not trust the figures"
            raise DevkitError(msg)

    def _serve(self, cluster: LocalCluster) -> None:
        """The parts over all services, with everything folded."""
        runs, report, kafka = self._settings.runs, self._report, cluster.kafka.bootstrap
        with folded(cluster) as streams:
            found = of_cluster(cluster, streams, self._home, self._users)
            owner, *_ = found
            reads: Reads | None = None
            if runs("reads"):
                walks_ms = recommendations.loaded(cluster, self._users, report)
                reads = Reads(found, report)
                reads.idle()
            if runs("reads", "freshness"):
                with self._data.steady(kafka):
                    say(f"{RATE:,} events a second, warming up")
                    time.sleep(WARM_S)
                    if runs("freshness"):
                        trees = {name: owner.trees[name] for name in (STREAMS, "Redis")}
                        freshness.measure(kafka, owner.address, trees).tell(report)
                    if reads:
                        reads.loaded()
            if reads:
                restart(cluster, recommendations.SERVICE, STABLE_S="0")  # walks for each answer
                *_, combined = of_cluster(cluster, streams, self._home, self._users)
                reads.walked(replace(combined, name=WALKED), walks_ms)
            if runs("overload"):
                overload.measure(owner).tell(report)

    def _habits(self) -> None:
        """The freshness of metrics beside a profile of the same events, in one process."""
        services = (APP.name, PROFILE)
        with servers(self._home / "habits", services=services) as cluster, ExitStack() as running:
            for api in cluster.apis:
                running.enter_context(api)
            streams = running.enter_context(streaming(cluster, *cluster.addresses))
            running.enter_context(self._data.steady(cluster.kafka.bootstrap))
            time.sleep(WARM_S)
            trees = {STREAMS: streams.pid, "Redis": cluster.redis.pid}
            delays = freshness.measure(cluster.kafka.bootstrap, cluster.addresses[APP.name][0], trees)
        self._report.profile += delays.targets(f"freshness of metrics with habits at {RATE:,} events/s", 115, 200)
