"""One run, part by part, over one cluster. The order keeps the parts from disturbing each other."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from devkit import DevkitError
from devkit.bench import access, backlog, event_latency, graphjet, ingest, overload, recommendations, rest, scale
from devkit.bench.cpu import Meter, Usage
from devkit.bench.data import Data
from devkit.bench.figures import JSON, Figures, Paced
from devkit.bench.peers import Peer, Scripts, kafka_streams
from devkit.bench.read_load import (
    FEW,
    IDLE_CONNECTIONS,
    MANY,
    READ_S,
    STREAMS,
    Measured,
    Read,
    ReadLoad,
    Situation,
    of_lab,
)
from devkit.bench.settings import BenchSettings
from devkit.bench.steady import RATE, steady
from devkit.bench.watchers import measure as watchers
from devkit.child_process import Child, free_port
from devkit.demo import CACHE, say
from devkit.local_cluster import LocalCluster, Plan, answers
from services.metrics.model import APP
from services.metrics.recount import RECOUNT
from streamstate.verify.check import Check

AT_REST = Situation(FEW)
IDLE = (AT_REST, Situation(MANY), Situation(FEW, IDLE_CONNECTIONS))
LOADED = (Situation(FEW, events=RATE), Situation(MANY, events=RATE))
PACED, PACED_UNDER_LOAD = Situation(FEW, paced=True), Situation(FEW, events=RATE, paced=True)
FORMATS = ("", "avro", "protobuf", "jsonschema")
CAUGHT_UP_S = 1_200
PEERS_CACHE = (CACHE / "peers").absolute()


class BenchRun:
    """What `settings` ask for, with everything in the folder `home`; `figures` fills up."""

    def __init__(self, settings: BenchSettings, home: Path) -> None:
        self.figures = Figures()
        self._settings = settings
        self._home = home
        self._data = Data.make(settings.events)
        self._users = self._data.users()
        self._reader = ReadLoad(home, self._users)
        self._lab = LocalCluster(Plan(home, CACHE, free_port(), free_port(), free_port()), say)

    def measure(self) -> None:
        """Measure. Raises `StreamStateError` when a part cannot be measured or a state is not exact."""
        self._recommender()
        if self._settings.runs("ingest", "reads", "access", "freshness", "overload"):
            try:
                self._over_lab()
            finally:
                self._lab.stop()
        if self._settings.runs("backlog"):
            self.figures.backlogs = [self._backlog(case) for case in backlog.CASES]
        if self._settings.runs("formats"):
            self.figures.formats = {value or JSON: self._format(value) for value in FORMATS}
        if self._settings.runs("scale"):
            self.figures.scale = [
                *scale.graph(self._settings.plays),
                *scale.partitions(self._home / "wide", self._data),
            ]
        if self._settings.runs("watchers"):
            self.figures.watching = watchers.measure(self._home / "watchers", self._data)
        if self._settings.runs("rest"):
            self.figures.rest = rest.measure(self._home / "demo")

    def _recommender(self) -> None:
        """Inside this process, before others run."""
        plays, peers, source = self._data.plays, self._settings.peers, self._settings.graphjet
        if self._settings.runs("recommendations"):
            say("the recommender inside this process")
            self.figures.recommender = recommendations.measure(plays, self._users)
            if peers and source:
                say("the same with GraphJet")
                self._data.save(self._home)
                self.figures.peers.graphjet = graphjet.measure(peers, source, PEERS_CACHE, self._home)
            else:
                say("GraphJet is left out: PEERS and GRAPHJET are not both set")

    def _over_lab(self) -> None:
        self._lab.start_servers()
        say(f"sending {self._settings.events:,} events, and the names of all that was played")
        self._data.send(self._lab.kafka.bootstrap)
        if self._settings.runs("ingest"):
            self._ingest()
        with self._peer() as peer:
            if peer and self._settings.runs("reads"):
                self._read_peer(peer)
            if self._settings.runs("reads", "access", "freshness", "overload"):
                self._serve(peer)
        say("counting the events again")
        report = Check(RECOUNT, self._lab.settings).run()
        if report.differences:
            msg = f"{report}, such as {report.differences[0]}; do not trust the figures"
            raise DevkitError(msg)

    def _ingest(self) -> None:
        say("folding the events from offset 0")
        before = ingest.used_memory(self._lab)
        self.figures.ingest = ingest.measure(self._lab, self._settings.events)
        self.figures.size = ingest.size(self._lab, before)

    def _backlog(self, case: backlog.Merged) -> backlog.Backlog:
        """In servers of its own: everything else is idle meanwhile."""
        home, count = self._home / case.service, self._settings.backlog
        cluster = LocalCluster(Plan(home, CACHE, free_port(), free_port(), free_port()), say)
        folder = self._settings.volume or home / "volume"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            cluster.start_servers()
            say(f"{case.service}: sending {count:,} records")
            backlog.send(cluster.kafka.bootstrap, case, count)
            say(f"{case.service}: folding them, with kill -9 half way")
            return backlog.measure(cluster, case, count, folder)
        finally:
            cluster.stop()

    def _format(self, value: str) -> ingest.Ingest:
        """In servers of its own: topics have one format."""
        home, ports = self._home / (value or JSON), (free_port(), free_port(), free_port())
        cluster = LocalCluster(Plan(home, CACHE, *ports, value=value, registry_port=free_port()), say)
        try:
            cluster.start_servers()
            say(f"sending {self._settings.events:,} events as {value or JSON}")
            self._data.send(cluster.kafka.bootstrap, cluster.recode)
            say("folding them from offset 0")
            return ingest.measure(cluster, self._settings.events)
        finally:
            cluster.stop()

    @contextmanager
    def _peer(self) -> Iterator[Peer | None]:
        """Kafka Streams with the same events folded; idle until it is asked."""
        if self._settings.peers is None or not self._settings.runs("ingest", "reads", "freshness"):
            say("Kafka Streams is left out: PEERS is not set, or no part needs it")
            yield None
            return
        say("Kafka Streams: folding the same events")
        self._data.save(self._home)
        scripts = Scripts(self._settings.peers.absolute(), PEERS_CACHE, self._home)
        with kafka_streams(scripts, self._lab) as peer:
            self.figures.peers.ingest = peer.ingest
            yield peer

    def _read_peer(self, peer: Peer) -> None:
        say("Kafka Streams: reads")
        theirs = self.figures.peers
        rates = half(self._peaks([peer.read], [AT_REST]))
        (idle,) = self._paced([peer.read], PACED, rates)
        with steady(self._lab.kafka.bootstrap, self._data):
            time.sleep(event_latency.WARM_S)
            (loaded,) = self._paced([peer.read], PACED_UNDER_LOAD, rates)
        theirs.paced = Paced(idle, loaded)

    def _serve(self, peer: Peer | None) -> None:
        """The parts that need all services, with everything folded."""
        cluster = self._lab
        cluster.start_services()
        say("folding the events in all services")
        cluster.streams.wait_until(lambda: ingest.caught_up(cluster) and cluster.ready(), timeout=CAUGHT_UP_S)
        cluster.streams.stop()
        if self._settings.runs("reads", "recommendations"):
            say("the walks of a combined answer")
            graph, self.figures.loading = recommendations.loaded(cluster)
            self.figures.walks_ms = recommendations.walks_ms(graph, self._users)
        with self._metrics_alone() as streams:
            reads = of_lab(cluster, streams)
            if self._settings.runs("reads", "freshness"):
                self._idle(reads, peer)
                self._loaded(reads)
            if self._settings.runs("access"):
                say("a gateway that wants a key beside it")
                self.figures.access = access.measure(cluster, self._reader, reads[1], self._home)
            if self._settings.runs("overload"):
                say(f"{overload.CLIENTS} clients without pause")
                owner = reads[0]
                self.figures.overload = overload.measure(owner, owner.paths(self._home, self._users))

    @contextmanager
    def _metrics_alone(self) -> Iterator[Child]:
        """The stream of metrics in a process of its own, as in a deployment, which has started and waits for events."""
        cluster = self._lab
        with cluster.of_services([APP.name]) as streams:
            streams.wait_until(lambda: answers(f"http://{cluster.status}/readyz"), timeout=CAUGHT_UP_S)
            yield streams
            streams.wait_until(lambda: ingest.caught_up(cluster, APP.name), timeout=CAUGHT_UP_S)

    def _idle(self, reads: Sequence[Read], peer: Peer | None) -> None:
        if self._settings.runs("reads"):
            self.figures.unasked = self._unasked(reads[-1])
            say("reads, nothing else to do")
            for read in reads:
                self.figures.reads += self._peaks([read], IDLE)
                if peer:
                    (self.figures.peers.reads[read.name],) = self._peaks([peer.read], [AT_REST])
        if peer and self._settings.runs("freshness"):
            say("Kafka Streams: freshness")
            self.figures.peers.freshness = peer.freshness()
        if peer:
            peer.end()

    def _loaded(self, reads: Sequence[Read]) -> None:
        wanted = self._settings.runs("reads")
        idle = self._paced(reads, PACED, half(self.figures.reads)) if wanted else []
        with steady(self._lab.kafka.bootstrap, self._data) as sent:
            say(f"{RATE:,} events a second, warming up")
            time.sleep(event_latency.WARM_S)
            if self._settings.runs("freshness"):
                self._freshness(reads[0])
            if wanted:
                say(f"reads under {RATE:,} events a second")
                loaded = self._paced(reads, PACED_UNDER_LOAD, half(self.figures.reads))
                self.figures.paced = [Paced(*pair) for pair in zip(idle, loaded, strict=True)]
                self.figures.reads += self._peaks(reads, LOADED)
        say(f"sent {sent.per_second:,.0f} events a second meanwhile")

    def _unasked(self, read: Read) -> Usage:
        """What the processes of `read` use when nobody asks; it is part of the CPU of every read."""
        say("no reads")
        meter = Meter(read.trees)
        time.sleep(READ_S)
        return meter.read()

    def _freshness(self, owner: Read) -> None:
        say("freshness")
        trees = {name: owner.trees[name] for name in (STREAMS, "Redis")}
        self.figures.freshness = event_latency.measure(self._lab.kafka.bootstrap, owner.address, trees)

    def _peaks(self, reads: Sequence[Read], situations: Sequence[Situation]) -> list[Measured]:
        for read in reads:
            self._reader.warm(read)
        return [self._reader.peak(read, situation) for read in reads for situation in situations]

    def _paced(self, reads: Sequence[Read], situation: Situation, rates: Mapping[str, float]) -> list[Measured]:
        return [self._reader.paced(read, situation, rates[read.name]) for read in reads]


def half(peaks: Sequence[Measured]) -> dict[str, float]:
    """Half the rate of each read when there was nothing else to do, by few connections."""
    return {measured.read: measured.answers.per_second / 2 for measured in peaks if measured.situation == AT_REST}
