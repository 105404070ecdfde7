"""A thousand watchers under load: the delay of their events, their cost for others, and losses."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from devkit.cluster.local_cluster import LocalCluster
from devkit.demo import say
from devkit.lab import cpu, wrk
from devkit.lab.listeners import Heard, listening
from devkit.lab.measures.reads import FEW, PROFILE, STREAMS, Read, paths
from devkit.lab.plays import SEED, USERS, Data
from devkit.lab.servers import WARM_S, folded, servers
from devkit.lab.targets import Report, Target
from services.events import LISTENING_EVENTS
from services.metrics.model import APP
from streamstate.kafka.reading import read_to_end
from streamstate.keys import LONG

WATCHERS = 1_000
SERVICES, INSTANCES = ("metrics", "names", "recommendations"), {APP.name: 2}
PAIRS, PAIR_S, READS_PER_S = 3, 40, 200
REST_S = 10
"""An event is lost when its watcher has not received a later state so many seconds after the sending."""


class Pair(NamedTuple):
    """Reads without watchers and then with watchers, each by the p99 in milliseconds and the usage meanwhile.

    memory: resident bytes of the gateway at the begin and the end with watchers. behind_ms: of each event behind the
    sending of its record; infinite for a lost event. ended: streams that ended unasked.
    """

    alone: tuple[float, cpu.Usage]
    beside: tuple[float, cpu.Usage]
    memory: tuple[int, int]
    behind_ms: list[float]
    ended: int


def measure(home: Path, data: Data, report: Report) -> None:
    """Measure in servers of its own, with a state made of `data`."""
    say("watchers")
    with servers(home, instances=INSTANCES, services=SERVICES) as cluster:
        data.send(cluster.kafka.bootstrap)
        with folded(cluster) as streams:
            others = {child.name: child.pid for child in (*cluster.apis, cluster.gateway)}
            trees = {STREAMS: streams.pid, "Redis": cluster.redis.pid, **others}
            reads = Read(STREAMS, cluster.url.removeprefix("http://"), paths(PROFILE, data.users()), trees)
            with data.steady(cluster.kafka.bootstrap):
                say(f"watchers: warming up for {WARM_S} s")
                _p99_ms(reads, WARM_S)
                pairs = [_pair(cluster, reads) for _ in range(PAIRS)]
    _tell(pairs, report)


def _pair(cluster: LocalCluster, reads: Read) -> Pair:
    gateway, states = cluster.gateway.pid, cluster.states(APP.name)
    users: list[int] = (np.random.default_rng(SEED).choice(USERS, WATCHERS, replace=False) + 1).tolist()
    alone = _p99_ms(reads, PAIR_S)
    with listening(cluster.url, users) as heard:
        before, starts = cpu.resident(gateway), states.ends()[APP.name]
        beside, ends = _p99_ms(reads, PAIR_S), states.ends()[APP.name]
        time.sleep(REST_S)
        memory = before, cpu.resident(gateway)
    say(f"p99 of reads without watchers {alone[0]:.1f} ms, with watchers {beside[0]:.1f} ms")
    behind = [*behind_ms(cluster.kafka.bootstrap, starts, ends, heard)]
    return Pair(alone, beside, memory, behind, sum(watcher.ended for watcher in heard.values()))


def _p99_ms(reads: Read, seconds: int) -> tuple[float, cpu.Usage]:
    """The p99 of reads in milliseconds, and the usage meanwhile."""
    meter = cpu.Meter(reads.trees)
    answers = wrk.run(reads.address, reads.paths, wrk.Clients(FEW, seconds, READS_PER_S))
    return answers.p99_ms, meter.read()


def _tell(pairs: Sequence[Pair], report: Report) -> None:
    """Add figures and targets."""
    behind = [ms for pair in pairs for ms in pair.behind_ms]
    p50, p99, greatest = np.percentile(behind, (50, 99, 100), method="nearest").tolist()
    alone, beside = ([part[0] for part in parts] for parts in zip(*((p.alone, p.beside) for p in pairs), strict=True))
    usage, watchers = pairs[-1].beside[1], f"{WATCHERS:,} watchers"
    report.figures["Watchers"] |= {
        "events behind their records, p50 / p99 / greatest": f"{p50:,.0f} / {p99:,.0f} / {greatest:,.0f} ms of "
        f"{len(behind):,}",
        "p99 of reads without / with watchers": ", ".join(
            f"{a:.1f} / {b:.1f}" for a, b in zip(alone, beside, strict=True)
        )
        + " ms",
        "cores without watchers": str(pairs[-1].alone[1]),
        "cores with watchers": str(usage),
    }
    slowed, grown = median(beside) / median(alone), pairs[-1].memory[1] / pairs[0].memory[0]
    lost = sum(map(math.isinf, behind)) + sum(pair.ended for pair in pairs)
    report.targets += [
        Target(f"{watchers}: events behind their records, p99", p99, 1_000, unit="ms", parts=usage.cores),
        Target(f"{watchers}: p99 of reads over that without", slowed, 1.5, unit="x", parts=usage.cores),
        Target(f"{watchers}: memory after over before", grown, 1.1, unit="x"),
        Target(f"{watchers}: lost", lost, 0, unit="events"),
    ]


def behind_ms(
    kafka: str, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int], heard: Mapping[int, Heard]
) -> Iterator[float]:
    """Of each record of a watched user between `starts` and `ends`, the milliseconds until its event."""
    by_key = {LONG.encode(user): watcher for user, watcher in heard.items()}
    for message in read_to_end(kafka, starts):
        offset, watched = message.offset() or 0, by_key.get(message.key() or b"")
        if watched and offset < ends[LISTENING_EVENTS, message.partition() or 0]:
            yield max(0.0, 1000 * watched.after(offset) - message.timestamp()[1])
