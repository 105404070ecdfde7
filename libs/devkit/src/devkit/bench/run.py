"""A run, part by part. The order keeps the parts from disturbing each other."""

import time
from contextlib import ExitStack
from pathlib import Path

from devkit import DevkitError
from devkit.bench import access, freshness, ingest, overload, peers, profiles, recommendations
from devkit.bench.data import Data
from devkit.bench.lab import WARM_S, folded, servers
from devkit.bench.reads import STREAMS, Read, Reads, of_cluster
from devkit.bench.report import RATE, BenchReport
from devkit.bench.settings import BenchSettings
from devkit.bench.watchers import measure as watchers
from devkit.demo import say
from devkit.local_cluster import LocalCluster
from services.metrics.model import APP
from streamstate.verify.check import Check
from streamstate.verify.replay import replayed


class BenchRun:
    """The selected parts of `settings`, with all files in the folder `home`."""

    def __init__(self, settings: BenchSettings, home: Path) -> None:
        self._settings = settings
        self._home = home
        self._report = BenchReport()
        self._data = Data.make(settings.events)
        self._users = self._data.users()
        self._peers = settings.peers and settings.peers.absolute()
        if self._peers:
            self._data.save(home)
        else:
            say("Kafka Streams and GraphJet are left out: PEERS is not set")

    def measure(self) -> BenchReport:
        """Raises `StreamStateError` when a part cannot be measured or a state is not exact."""
        runs, graphjet = self._settings.runs, self._settings.graphjet
        if runs("recommendations"):
            request_ms = recommendations.measure(self._data.plays, self._users, self._report)
            if self._peers and graphjet:
                peers.graphjet(self._peers, graphjet, self._home, request_ms, self._report)
        if runs("ingest", "reads", "access", "freshness", "overload"):
            with servers(self._home) as cluster:
                self._over_cluster(cluster)
        if runs("watchers"):
            watchers.measure(self._home / "watchers", self._data, self._report)
        if runs("profiles"):
            profiles.measure(self._home / "profiles", self._report)
        return self._report

    def _over_cluster(self, cluster: LocalCluster) -> None:
        runs, report = self._settings.runs, self._report
        self._data.send(cluster.kafka.bootstrap)
        with ExitStack() as peer_runs:
            ours = ingest.measure(cluster, self._settings.events, report) if runs("ingest") else None
            peer: Read | None = None
            if self._peers and runs("ingest", "reads"):
                running = peers.kafka_streams(self._peers, cluster, self._home, self._users)
                theirs, peer = peer_runs.enter_context(running)
                theirs.tell(report, "Kafka Streams: ")
                if ours:
                    ours.compare(theirs, report)
            if runs("reads", "access", "freshness", "overload"):
                self._serve(cluster, peer, peer_runs)
        say("counting the events again")
        recounted = Check(replayed(APP), cluster.settings).run()
        if recounted.differences:
            msg = f"{recounted}, such as {recounted.differences[0]}; do not trust the figures"
            raise DevkitError(msg)

    def _serve(self, cluster: LocalCluster, peer: Read | None, peer_runs: ExitStack) -> None:
        """The parts over all services, with everything folded; `peer_runs` ends Kafka Streams."""
        runs, report, kafka = self._settings.runs, self._report, cluster.kafka.bootstrap
        with folded(cluster) as streams:
            owner, gateway, combined = of_cluster(cluster, streams, self._home, self._users)
            reads: Reads | None = None
            if runs("reads"):
                walks_ms = recommendations.loaded(cluster, self._users, report)
                reads = Reads((owner, gateway, combined), peer, walks_ms, report)
                reads.idle()
            peer_runs.close()
            if runs("reads", "freshness"):
                with self._data.steady(kafka):
                    say(f"{RATE:,} events a second, warming up")
                    time.sleep(WARM_S)
                    if runs("freshness"):
                        trees = {name: owner.trees[name] for name in (STREAMS, "Redis")}
                        freshness.measure(kafka, owner.address, trees, report)
                    if reads:
                        reads.loaded()
            if runs("access"):
                access.compare(cluster, gateway, self._home, report)
            if runs("overload"):
                overload.measure(owner).tell(report)
