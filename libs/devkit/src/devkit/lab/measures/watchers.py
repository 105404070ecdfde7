"""A thousand watchers under load: the delay of their events, their cost for others, and losses."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab import cpu, wrk
from devkit.lab.listeners import Heard, listening
from devkit.lab.measures.reads import FEW, PROFILE, STREAMS, paths
from devkit.lab.plays import SEED, USERS, Data
from devkit.lab.servers import WARM_S, folded, servers
from devkit.lab.targets import Report, Target
from services.events import LISTENING_EVENTS
from services.metrics.model import APP
from streamstate import bootstrap
from streamstate.kafka.reading import read_to_end
from streamstate.keys import LONG

WATCHERS = 1_000
SERVICES, INSTANCES = ("metrics", "names", "recommendations"), {APP.name: 2}
PAIRS, PAIR_S, READS_PER_S = 3, 40, 200
REST_S = 10
"""An event is lost when its watcher has not received a later state so many seconds after the sending."""


@dataclass
class Watching:
    """Milliseconds, and resident bytes of the gateway.

    behind_ms: of each event behind the sending of its record; infinite for a lost event. alone_ms, beside_ms: p99 of
    reads without watchers and with watchers, pair by pair. ended: streams that ended unasked. memory: with the first
    watchers first, with the last watchers last. usage: of the last pair.
    """

    behind_ms: list[float] = field(default_factory=list)
    alone_ms: list[float] = field(default_factory=list)
    beside_ms: list[float] = field(default_factory=list)
    ended: int = 0
    memory: list[int] = field(default_factory=list)
    usage: tuple[cpu.Usage, ...] = ()

    def tell(self, report: Report) -> None:
        """Add rows and targets."""
        p50, p99, greatest = np.percentile(self.behind_ms, (50, 99, 100), method="nearest").tolist()
        pairs = zip(self.alone_ms, self.beside_ms, strict=True)
        without, beside = self.usage
        report.figures["Watchers"] |= {
            "events behind their records, p50 / p99 / greatest": f"{p50:,.0f} / {p99:,.0f} / {greatest:,.0f} ms of "
            f"{len(self.behind_ms):,}",
            "p99 of reads without / with watchers": ", ".join(f"{a:.1f} / {b:.1f}" for a, b in pairs) + " ms",
            "cores without watchers": str(without),
            "cores with watchers": str(beside),
        }
        watchers, cores = f"{WATCHERS:,} watchers", beside.cores
        slowed, lost = median(self.beside_ms) / median(self.alone_ms), sum(map(math.isinf, self.behind_ms)) + self.ended
        report.targets += [
            Target(f"{watchers}: events behind their records, p99", p99, 1_000, unit="ms", parts=cores),
            Target(f"{watchers}: p99 of reads over that without", slowed, 1.5, unit="x", parts=cores),
            Target(f"{watchers}: memory after over before", self.memory[-1] / self.memory[0], 1.1, unit="x"),
            Target(f"{watchers}: lost", lost, 0, unit="events"),
        ]


def measure(home: Path, data: Data, report: Report) -> None:
    """Measure in servers of its own, with a state made of `data`."""
    say("watchers")
    with servers(home, instances=INSTANCES, services=SERVICES) as cluster:
        data.send(cluster.kafka.bootstrap)
        with folded(cluster) as streams:
            watch = WatcherBenchmark(cluster, streams.pid, paths(PROFILE, data.users()))
            with data.steady(cluster.kafka.bootstrap):
                say(f"watchers: warming up for {WARM_S} s")
                watch.p99_ms(WARM_S)
                for _ in range(PAIRS):
                    watch.pair()
    watch.seen.tell(report)


class WatcherBenchmark:
    """Measures over `cluster` under load; `paths` are of the reads beside."""

    def __init__(self, cluster: LocalCluster, streams: int, paths: Sequence[str]) -> None:
        self._cluster = cluster
        self._topics = bootstrap.topics(cluster.settings.kafka, cluster.settings.security)
        others = {child.name: child.pid for child in (*cluster.apis, cluster.gateway)}
        self._trees = {STREAMS: streams, "Redis": cluster.redis.pid, **others}
        self._paths = paths
        users = np.random.default_rng(SEED).choice(USERS, WATCHERS, replace=False) + 1
        self._users: list[int] = users.tolist()
        self.seen = Watching()

    def pair(self) -> None:
        """Reads without watchers, and then with watchers."""
        seen, gateway = self.seen, self._cluster.gateway.pid
        alone_ms, alone = self._reads()
        with listening(self._cluster.url, self._users) as heard:
            seen.memory.append(cpu.resident(gateway))
            starts = self._ends()
            beside_ms, beside = self._reads()
            ends = self._ends()
            time.sleep(REST_S)
            seen.memory.append(cpu.resident(gateway))
        seen.behind_ms += behind_ms(self._cluster.kafka.bootstrap, starts, ends, heard)
        seen.alone_ms.append(alone_ms)
        seen.beside_ms.append(beside_ms)
        seen.usage = alone, beside
        seen.ended += sum(each.ended for each in heard.values())
        say(f"p99 of reads without watchers {alone_ms:.1f} ms, with watchers {beside_ms:.1f} ms")

    def _reads(self) -> tuple[float, cpu.Usage]:
        """The p99 of reads in milliseconds, and the usage meanwhile."""
        meter = cpu.Meter(self._trees)
        return self.p99_ms(PAIR_S), meter.read()

    def p99_ms(self, seconds: int) -> float:
        """The p99 of reads in milliseconds."""
        clients = wrk.Clients(FEW, seconds, READS_PER_S)
        return wrk.run(self._cluster.url.removeprefix("http://"), self._paths, clients).p99_ms

    def _ends(self) -> Mapping[tuple[str, int], int]:
        """The end offsets of the topic."""
        count = self._topics.partitions(LISTENING_EVENTS)
        return self._topics.ends((LISTENING_EVENTS, partition) for partition in range(count))


def behind_ms(
    kafka: str, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int], heard: Mapping[int, Heard]
) -> Iterator[float]:
    """Of each record of a watched user between `starts` and `ends`, the milliseconds until its event."""
    by_key = {LONG.encode(user): each for user, each in heard.items()}
    for message in read_to_end(kafka, starts):
        offset, watched = message.offset() or 0, by_key.get(message.key() or b"")
        if watched and offset < ends[LISTENING_EVENTS, message.partition() or 0]:
            yield max(0.0, 1000 * watched.after(offset) - message.timestamp()[1])
